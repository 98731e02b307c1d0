package stray

import (
	"bytes"
	"errors"
	"net/netip"
	"reflect"
	"testing"
)

func sample() (asked, answers []Datagram) {
	v4, v6 := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")
	asked = []Datagram{
		{Listener: 1, Client: netip.AddrPortFrom(v4, 7), Bytes: []byte("a")},
		{
			Listener: 1 << 63, Local: v6, Client: netip.AddrPortFrom(v6, 65535), Hops: MaxHops,
			Bytes: make([]byte, MaxDatagram),
		},
	}
	return asked, []Datagram{{Listener: 2, Local: v4, Client: netip.AddrPortFrom(v4, 8), Bytes: []byte("bb")}}
}

func batchOf(t testing.TB, node string, asked, answers []Datagram) []byte {
	t.Helper()
	b := Begin(nil, node)
	var fits bool
	for i := range asked {
		if b, fits = Append(b, &asked[i], false); !fits {
			t.Fatal("no room")
		}
	}
	for i := range answers {
		if b, fits = Append(b, &answers[i], true); !fits {
			t.Fatal("no room")
		}
	}
	return b
}

// TestBatch reads what was written, and nothing that was cut off within a datagram.
func TestBatch(t *testing.T) {
	asked, answers := sample()
	b := batchOf(t, "ams1", asked, answers)
	node, gotAsked, gotAnswers, err := Parse(b)
	if err != nil || node != "ams1" || !reflect.DeepEqual(gotAsked, asked) || !reflect.DeepEqual(gotAnswers, answers) {
		t.Errorf("%q, %v, %v, %v", node, gotAsked, gotAnswers, err)
	}
	for n := range len(b) {
		if _, asked, answers, err := Parse(b[:n]); err == nil && len(asked)+len(answers) >= 3 {
			t.Fatalf("%d of %d bytes are a whole batch", n, len(b))
		}
	}
}

// TestHostileBatches refuses what no node sends.
func TestHostileBatches(t *testing.T) {
	asked, _ := sample()
	good := batchOf(t, "n", asked[:1], nil)
	at := func(i int, v byte) []byte {
		b := bytes.Clone(good)
		b[i] = v
		return b
	}
	port := 3 + 1 + 8 + 16
	for name, b := range map[string][]byte{
		"nothing": nil, "another form": at(0, 2), "no node": at(1, 0), "a long name": at(1, 200),
		"unknown flags": at(3, 0x80), "too many hops": at(3, 3<<hopsShift), "port 0": at(port+1, 0),
		"longer than its bytes": at(port+3, 9), "too large": append(good, make([]byte, MaxBatch)...),
	} {
		if _, _, _, err := Parse(b); !errors.Is(err, ErrBatch) {
			t.Errorf("%s: %v", name, err)
		}
	}
	large := Datagram{Client: asked[0].Client, Bytes: make([]byte, MaxDatagram+1)}
	if _, fits := Append(nil, &large, false); fits {
		t.Error("a datagram that is too large fits")
	}
	large.Bytes = large.Bytes[:MaxDatagram]
	b, n := Begin(nil, "n"), 0
	for fits := true; fits; n++ {
		b, fits = Append(b, &large, false)
	}
	if len(b) > MaxBatch || n < MaxBatch/MaxDatagram-1 {
		t.Errorf("%d bytes with %d datagrams", len(b), n)
	}
}

// TestKeys asserts that each part of a client makes another key, and that IPv4 has one form.
func TestKeys(t *testing.T) {
	secret := Secret{1, 2}
	client := netip.MustParseAddrPort("192.0.2.1:7")
	seen := map[Key]bool{
		secret.Key(1, client): true, secret.Key(2, client): true, Secret{1, 3}.Key(1, client): true,
		secret.Key(1, netip.MustParseAddrPort("192.0.2.1:8")): true,
		secret.Key(1, netip.MustParseAddrPort("192.0.2.2:7")): true,
	}
	if len(seen) != 5 {
		t.Errorf("%d keys, want 5", len(seen))
	}
	if secret.Key(1, client) != secret.Key(1, netip.MustParseAddrPort("[::ffff:192.0.2.1]:7")) {
		t.Error("an IPv4 address has two keys")
	}
	if ListenerID("a", 1) == ListenerID("a", 2) || ListenerID("a", 1) == ListenerID("b", 1) {
		t.Error("two listeners have one ID")
	}
}

// FuzzParse asserts that a batch that can be read is written the same again.
func FuzzParse(f *testing.F) {
	asked, answers := sample()
	f.Add(batchOf(f, "ams1", asked, answers))
	f.Fuzz(func(t *testing.T, b []byte) {
		node, asked, answers, err := Parse(b)
		if err != nil {
			return
		}
		again, more, rest, err := Parse(batchOf(t, node, asked, answers))
		if err != nil || again != node || !reflect.DeepEqual(more, asked) || !reflect.DeepEqual(rest, answers) {
			t.Errorf("%v: %v %v, want %v %v", err, more, rest, asked, answers)
		}
	})
}
