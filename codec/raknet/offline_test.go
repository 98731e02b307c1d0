package raknet

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"

	"tidegate/codec"
	"tidegate/codec/codectest"
	"tidegate/internal/testkit/allocs"
)

// wireType is the interface of most wire types of this package.
type wireType interface {
	parse(b []byte) error
	append(b []byte) []byte
}

// golden is one captured message. Its bytes must match in both directions, and no truncated form may pass as a
// message.
type golden struct {
	name string
	hex  string
	want wireType
	// written is the hex of append, if it differs from the capture.
	written string
	// whole says which lengths below the full one are messages too.
	whole func(n int) bool
}

func (g golden) run(t *testing.T) {
	wire := codectest.Unhex(t, g.hex)
	got := blank(g.want)
	if err := got.parse(wire); err != nil {
		t.Fatalf("parse: %v", err)
	}
	if !reflect.DeepEqual(got, g.want) {
		t.Errorf("parse = %+v, want %+v", got, g.want)
	}
	written := wire
	if g.written != "" {
		written = codectest.Unhex(t, g.written)
	}
	if b := got.append([]byte("x")); !bytes.Equal(b[1:], written) || b[0] != 'x' {
		t.Errorf("append = %x, want %x", b[1:], written)
	}
	room := make([]byte, 0, 2*len(wire))
	if n := allocs.PerRun(10, func() {
		_ = got.parse(wire)
		_ = got.append(room)
	}); n != 0 {
		t.Errorf("parse and append allocate %v times", n)
	}
	for n := range wire {
		err := blank(g.want).parse(wire[:n])
		if g.whole != nil && g.whole(n) {
			continue
		}
		if !errors.Is(err, codec.ErrMalformed) {
			t.Errorf("parse of %d of %d bytes: %v, want ErrMalformed", n, len(wire), err)
		}
	}
	wire[0] = 0xff
	if err := blank(g.want).parse(wire); !errors.Is(err, codec.ErrMalformed) {
		t.Errorf("parse with another identifier: %v, want ErrMalformed", err)
	}
}

// blank returns a zero value of the same type.
func blank(w wireType) wireType {
	if w, ok := w.(request2); ok {
		return request2{new(openConnectionRequest2), w.cookie}
	}
	return reflect.New(reflect.TypeOf(w).Elem()).Interface().(wireType)
}

const magicHex = "00ffff00fefefefefdfdfdfd12345678"

func TestOfflineID(t *testing.T) {
	guid := strings.Repeat("11", 8)
	for _, c := range []struct {
		name string
		hex  string
		ok   bool
	}{
		{"ping without GUID", "01" + guid + magicHex, true},
		{"ping of a free place", "02" + guid + magicHex, true},
		{"pong without data", "1c" + guid + guid + magicHex, true},
		{"first request", "05" + magicHex + guid, true},
		{"first reply", "06" + magicHex + guid, true},
		{"second request", "07" + magicHex + guid, true},
		{"second reply", "08" + magicHex + guid, true},
		{"out of band", "0d" + guid + magicHex, true},
		{"attempt failed", "11" + magicHex + guid, true},
		{"already connected", "12" + magicHex + guid, true},
		{"no free place", "14" + magicHex + guid, true},
		{"banned", "17" + magicHex + guid, true},
		{"incompatible", "190b" + magicHex + guid, true},
		{"recently connected", "1a" + magicHex + guid, true},
		{"connected ping", "00" + magicHex + guid, false},
		{"data datagram", "84" + magicHex + guid, false},
		{"disconnection", "15" + magicHex + guid, false},
	} {
		b := codectest.Unhex(t, c.hex)
		id, ok := offlineID(b)
		if ok != c.ok || (ok && id != b[0]) {
			t.Errorf("%s: offlineID = %#x, %v, want %v", c.name, id, ok, c.ok)
		}
		if !c.ok {
			continue
		}
		for n := range b {
			if _, ok := offlineID(b[:n]); ok {
				t.Errorf("%s: %d of %d bytes taken for offline", c.name, n, len(b))
			}
		}
		if n := allocs.PerRun(10, func() { offlineID(b) }); n != 0 {
			t.Errorf("%s: offlineID allocates %v times", c.name, n)
		}
		at := bytes.Index(b, []byte(magic))
		b[at+15] ^= 1
		if _, ok := offlineID(b); ok {
			t.Errorf("%s: taken for offline with a broken magic", c.name)
		}
	}
}

func TestRefusalMessages(t *testing.T) {
	for _, g := range []golden{
		{name: "already connected", hex: "1200ffff00fefefefefdfdfdfd12345678000660c48310c3ff",
			want: &refusal{id: idAlreadyConnected, guid: 0x660c48310c3ff}},
		{name: "no free place", hex: "1400ffff00fefefefefdfdfdfd12345678000660c482cd3329",
			want: &refusal{id: idNoFreeConnections, guid: 0x660c482cd3329}},
		{name: "banned", hex: "1700ffff00fefefefefdfdfdfd12345678000660c4835b6767",
			want: &refusal{id: idConnectionBanned, guid: 0x660c4835b6767}},
		{name: "recently connected", hex: "1a00ffff00fefefefefdfdfdfd12345678000660c4a79e2bf5",
			want: &refusal{id: idRecentlyConnected, guid: 0x660c4a79e2bf5}},
		{name: "incompatible", hex: "190b00ffff00fefefefefdfdfdfd12345678000660c483465d64",
			want: &incompatible{version: 11, guid: 0x660c483465d64}},
	} {
		t.Run(g.name, g.run)
	}
}
