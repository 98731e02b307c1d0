package record

import (
	"bytes"
	"errors"
	"testing"
	"time"
)

type older struct {
	Head
	Name string `cbor:"3,keyasint,omitempty"`
}

type newer struct {
	Head
	Name  string   `cbor:"3,keyasint,omitempty"`
	Lists [][]byte `cbor:"4,keyasint,omitempty"`
	Until Moment   `cbor:"5,keyasint,omitempty"`
}

// TestReleases reads a newer release's record with an older one's struct, and the reverse.
func TestReleases(t *testing.T) {
	head := Head{Kind: "test", Version: 1}
	b := Append([]byte("before"), &newer{Head: head, Name: "name", Lists: [][]byte{{1}, nil}, Until: 7})
	b, only := bytes.CutPrefix(b, []byte("before"))
	var was older
	if err := Read(b, &was); err != nil || !only || was.Name != "name" || was.Head != head {
		t.Errorf("the older reads %+v, %v", was, err)
	}
	var is newer
	if err := Read(Append(nil, &was), &is); err != nil || is.Name != "name" || is.Lists != nil || is.Until != 0 {
		t.Errorf("the newer reads %+v, %v", is, err)
	}
}

func TestOpen(t *testing.T) {
	b := Append(nil, &older{Head: Head{Kind: "test", Version: 2}})
	for _, head := range []Head{{"test", 1}, {"test", 3}, {"other", 2}, {"", 0}} {
		if err := Open(b, head.Kind, head.Version, new(older)); !errors.Is(err, ErrUnreadable) {
			t.Errorf("%+v: %v, want ErrUnreadable", head, err)
		}
	}
	if err := Open(b, "test", 2, new(older)); err != nil {
		t.Error(err)
	}
}

// TestHostileRecords: each record is refused, and none takes much memory.
func TestHostileRecords(t *testing.T) {
	good := Append(nil, &newer{Name: "name", Lists: [][]byte{{1, 2, 3}}})
	hostile := map[string][]byte{
		"nothing":           {},
		"a second record":   append(bytes.Clone(good), good...),
		"a huge list":       {0xa1, 0x04, 0x9b, 0, 0, 0, 1, 0, 0, 0, 0},
		"a huge text":       {0xa1, 0x03, 0x7b, 0, 0, 0, 1, 0, 0, 0, 0},
		"an endless list":   {0xa1, 0x04, 0x9f, 0xff},
		"a field twice":     {0xa2, 0x03, 0x60, 0x03, 0x60},
		"another type":      {0xa1, 0x03, 0x01},
		"a tag":             {0xa1, 0x05, 0xc2, 0x41, 0x01},
		"many levels":       append(bytes.Repeat([]byte{0x81}, 1000), 0),
		"more than a field": {0xbb, 0, 0, 0, 0, 1, 0, 0, 0},
	}
	for name, b := range hostile {
		if err := Read(b, new(newer)); !errors.Is(err, ErrUnreadable) {
			t.Errorf("%s: %v, want ErrUnreadable", name, err)
		}
	}
	for n := range good {
		if err := Read(good[:n], new(newer)); !errors.Is(err, ErrUnreadable) {
			t.Errorf("%d of %d bytes: %v, want ErrUnreadable", n, len(good), err)
		}
	}
}

func TestMoment(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	later := now.Add(10 * time.Hour)
	for _, d := range []time.Duration{-time.Hour, -1, 0, 1, time.Hour} {
		if got := MomentOf(now, now.Add(d)).Time(later); !got.Equal(later.Add(d)) {
			t.Errorf("%v from now becomes %v", d, got.Sub(later))
		}
	}
	if !MomentOf(now, time.Time{}).Time(later).IsZero() {
		t.Error("no time becomes a time")
	}
}

func FuzzRead(f *testing.F) {
	f.Add(Append(nil, &newer{Name: "name", Lists: [][]byte{{1, 2, 3}}, Until: -1}))
	f.Fuzz(func(t *testing.T, b []byte) {
		var v newer
		if Read(b, &v) == nil && Read(Append(nil, &v), &v) != nil {
			t.Errorf("what was read from %x cannot be written and read", b)
		}
	})
}
