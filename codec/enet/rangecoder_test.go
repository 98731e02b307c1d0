package enet

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"math/rand/v2"
	"net/netip"
	"os"
	"testing"

	"tidegate/codec"
	"tidegate/codec/codectest"
	"tidegate/internal/testkit/allocs"
)

// vectors are what the real library makes of some bytes, also where that is larger.
func vectors(t testing.TB) (all []struct{ Plain, Packed string }) {
	t.Helper()
	text := codectest.ReadCapture(t, os.DirFS("testdata"), "rangecoder/vectors.json.gz")
	if err := json.Unmarshal(text, &all); err != nil || len(all) == 0 {
		t.Fatal(len(all), err)
	}
	return all
}

func bytesOf(t testing.TB, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestRangeCoderVectors: our results are those of the real library, bit for bit.
func TestRangeCoderVectors(t *testing.T) {
	var r rangeCoder
	for _, v := range vectors(t) {
		plain, want := bytesOf(t, v.Plain), bytesOf(t, v.Packed)
		packed, ok := r.pack(plain)
		if ok != (len(want) < len(plain)) || ok && !bytes.Equal(packed, want) {
			t.Errorf("%.20x of %d bytes becomes %.20x, %v, want %.20x", plain, len(plain), packed, ok, want)
		}
		if again, ok := r.unpack(nil, want, len(plain)); !ok || !bytes.Equal(again, plain) {
			t.Errorf("%.20x of %d bytes comes back as %.20x, %v", plain, len(plain), again, ok)
		}
		if again, ok := r.unpack(nil, want, len(plain)-1); ok || len(again) >= len(plain) {
			t.Errorf("%.20x of %d bytes has no bound", plain, len(plain))
		}
	}
}

// TestRangeCoderDepth: no order of bytes makes a tree deep, so that no datagram costs much more than others.
func TestRangeCoderDepth(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	deepest := 0
	for round := range 2000 {
		var m model
		m.reset()
		for _, value := range rng.Perm(256)[:1+rng.IntN(256)] {
			switch round % 3 {
			case 1:
				value = min(value, round%256)
			case 2:
				value ^= round & 0x55
			}
			m.learn(root, byte(value))
			m.link = &m.longest
		}
		deepest = max(deepest, m.depth(m.nodes[root].bytes))
	}
	if deepest > 48 {
		t.Errorf("a tree has %d levels", deepest)
	}
}

func (m *model) depth(at uint16) int {
	if at == noNode {
		return 0
	}
	return 1 + max(m.depth(m.nodes[at].left), m.depth(m.nodes[at].right))
}

// FuzzRangeCoder reads any bytes as compressed ones, within their bound, and reads what it has written.
func FuzzRangeCoder(f *testing.F) {
	for _, v := range vectors(f) {
		f.Add(bytesOf(f, v.Plain))
		f.Add(bytesOf(f, v.Packed))
	}
	var r rangeCoder
	f.Fuzz(func(t *testing.T, d []byte) {
		d = d[:min(len(d), codec.MaxDatagram)]
		if plain, _ := r.unpack([]byte("head"), d, 500); len(plain) > 504 || string(plain[:4]) != "head" {
			t.Fatalf("%d bytes", len(plain))
		}
		packed, ok := r.pack(d)
		if !ok {
			return
		}
		if plain, ok := r.unpack(nil, bytes.Clone(packed), len(d)); !ok || !bytes.Equal(plain, d) {
			t.Fatalf("%x comes back as %x, %v", d, plain, ok)
		}
	})
}

// TestCompressionFollowsPeer: a side compresses once its peer has, and not before. A side that must not compress
// ignores such a peer, and says why.
func TestCompressionFollowsPeer(t *testing.T) {
	for _, c := range []struct {
		server, client Compression
		follows        bool
		err            error
	}{
		{CompressionAuto, CompressionAuto, false, nil},
		{CompressionAuto, CompressionRange, true, nil},
		{CompressionRange, CompressionRange, true, nil},
		{CompressionRange, CompressionAuto, false, nil},
		{CompressionOff, CompressionRange, false, codec.ErrMalformed},
	} {
		for _, sums := range []Checksums{ChecksumsAuto, ChecksumsOn} {
			server := New(seeded(1, Options{Compression: c.server, Checksums: sums}))
			client := New(seeded(2, Options{Compression: c.client, Checksums: sums}))
			dialed := client.Dial(start, netip.AddrPort{}, codec.Hello{}).(*Conn)
			first, _ := dialed.Transmit(start, nil)
			if c.err != nil {
				if server.Sniff(first) || !server.SniffOpaque(first) {
					t.Errorf("%v: a compressed Connect is no news", c.server)
				}
				continue
			}
			accepted, _, err := server.Accept(start, netip.AddrPort{}, first, nil)
			if err != nil {
				t.Fatal(c, err)
			}
			conns := [2]*Conn{accepted.(*Conn), dialed}
			conns[0].Admit(start, 1)
			exchange(start, conns)
			m := codec.Message{Mode: codec.ReliableOrdered, Payload: make([]byte, 1000)}
			if err := conns[0].Send(start, m); err != nil {
				t.Fatal(err)
			}
			d, _ := conns[0].Transmit(start, nil)
			if got := len(d) < 500; got != c.follows || d[0]&compressedBit != 0 != got {
				t.Errorf("%v: a datagram of %d bytes, %x", c, len(d), d[:1])
			}
			if err := conns[1].Receive(start, d); err != nil {
				t.Error(c, err)
			}
			if e, ok := conns[1].Poll(); !ok || !bytes.Equal(e.Payload, m.Payload) {
				t.Errorf("%v: %v arrives", c, e.Kind)
			}
		}
	}
}

// TestForgedCompression: without checksums a forger can guess the ID and the session. It cannot have a side compress
// for a peer that does not understand it.
func TestForgedCompression(t *testing.T) {
	p := New(seeded(1, Options{}))
	dialed := p.Dial(start, netip.AddrPort{}, codec.Hello{}).(*Conn)
	first, _ := dialed.Transmit(start, nil)
	accepted, _, err := p.Accept(start, netip.AddrPort{}, first, nil)
	if err != nil {
		t.Fatal(err)
	}
	conns := [2]*Conn{accepted.(*Conn), dialed}
	conns[0].Admit(start, 1)
	exchange(start, conns)
	server := conns[0]
	h := header{peer: server.secrets.ID, session: server.sessionIn}
	m := appendCommand(nil, kindUnsequenced, flagUnsequenced, 0, 0)
	m = append(append(m, 0, 1, 0, 200), make([]byte, 200)...)
	packed, ok := new(rangeCoder).pack(m)
	d := append(h.append(nil), packed...)
	d[0] |= compressedBit
	if err := server.Receive(start, d); err != nil || !ok {
		t.Fatal(err)
	}
	if e, ok := server.Poll(); !ok || len(e.Payload) != 200 {
		t.Errorf("the message came as %v", e.Kind)
	}
	dialed.packs = true // as a forger's acknowledgement, which it has guessed
	for range 20 {
		for _, c := range conns {
			_ = c.Send(start, codec.Message{Mode: codec.ReliableOrdered, Payload: make([]byte, 200)})
		}
		exchange(start, conns)
	}
	if server.packs {
		t.Error("the server compresses for a client that never did")
	}
}

// TestCompressionAllocates: nothing, once it has begun.
func TestCompressionAllocates(t *testing.T) {
	var r coders
	text := bytes.Repeat([]byte("steady "), 100)
	b := make([]byte, 0, 2000)
	if n := allocs.PerRun(100, func() {
		coder := r.lend()
		packed, _ := coder.pack(text)
		b = append(b[:0], packed...)
		r.spare.Store(coder)
		if plain, ok := r.unpack(b[len(b):], b, len(text)); !ok || len(plain) != len(text) {
			t.Fatal(len(plain))
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// BenchmarkRangeCoder measures a datagram of 200 bytes of text, and the slowest of 1,392 that we know.
func BenchmarkRangeCoder(b *testing.B) {
	var r rangeCoder
	for _, v := range vectors(b) {
		plain := bytesOf(b, v.Plain)
		if len(plain) != 200 && len(plain) != 1300 {
			continue
		}
		b.Run("pack", func(b *testing.B) {
			b.SetBytes(int64(len(plain)))
			for b.Loop() {
				r.pack(plain)
			}
		})
		packed, room := bytesOf(b, v.Packed), make([]byte, 0, len(plain))
		b.Run("unpack", func(b *testing.B) {
			b.SetBytes(int64(len(plain)))
			for b.Loop() {
				if _, ok := r.unpack(room, packed, len(plain)); !ok {
					b.Fatal("it does not come back")
				}
			}
		})
	}
}
