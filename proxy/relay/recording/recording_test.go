package recording

import (
	"bytes"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/session"
)

var listenerAddr = netip.MustParseAddrPort("192.0.2.1:7777")

func clientAddr(i int) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 2, 0, byte(i)}), 5000)
}

// kept is a datagram as a test remembers it.
type kept struct {
	Captured
	client netip.AddrPort
}

// TestBlackBoxModel compares a small black box with a list of all datagrams, for random sizes and clients. The black
// box must have an unbroken end of the list, by all records and by each client, and its records must be unchanged.
func TestBlackBoxModel(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 1))
		b := NewBlackBox(64 << 10)
		var all []kept
		start := time.Unix(1_700_000_000, 0)
		for i := range 2000 {
			client := clientAddr(rng.IntN(5))
			size := rng.IntN(300)
			if rng.IntN(50) == 0 {
				size = rng.IntN(codec.MaxDatagram)
			}
			c := Captured{
				At: start.Add(time.Duration(i) * time.Millisecond), From: client, To: listenerAddr,
				Upstream: rng.IntN(2) == 0, Sent: rng.IntN(2) == 0, Stream: rng.IntN(2) == 0,
				Session: session.ID(rng.IntN(9)), Bytes: make([]byte, size),
			}
			for j := range c.Bytes {
				c.Bytes[j] = byte(rng.Uint32())
			}
			b.Put(&c, client, c.Bytes[:size/3], c.Bytes[size/3:])
			all = append(all, kept{c, client})
			if i%400 == 399 {
				sameAsModel(t, b, all, netip.AddrPort{})
				for n := range 5 {
					sameAsModel(t, b, all, clientAddr(n))
				}
			}
		}
		since := all[len(all)-10].At
		if got := b.Choose(&RecordFilter{Since: since}); len(got) > 10 || len(got) == 0 || got[0].at.Before(since) {
			t.Errorf("%d records of the last ten", len(got))
		}
	}
}

// sameAsModel compares the records of a client, or of all clients, with the newest datagrams of the model.
func sameAsModel(t *testing.T, b *BlackBox, all []kept, client netip.AddrPort) {
	t.Helper()
	var got Batch
	b.find(time.Time{}, client, func(r recorded) bool {
		if !b.peek(r.place, &got) {
			t.Fatal("a record vanished")
		}
		return true
	})
	slices.Reverse(got.Captured)
	want := slices.DeleteFunc(slices.Clone(all), func(k kept) bool { return client.IsValid() && k.client != client })
	if len(got.Captured) == 0 && !client.IsValid() || len(got.Captured) > len(want) {
		t.Fatalf("%d records of %d datagrams", len(got.Captured), len(want))
	}
	for i, w := range want[len(want)-len(got.Captured):] {
		g := got.Captured[i]
		if !bytes.Equal(g.Bytes, w.Bytes) || !g.At.Equal(w.At) || g.From != w.From || g.To != w.To ||
			g.Session != w.Session || g.Upstream != w.Upstream || g.Sent != w.Sent || g.Stream != w.Stream {
			t.Fatalf("record %d is %+v, want %+v", i, g, w)
		}
	}
}

// peek is read for a reader that holds the lock.
func (b *BlackBox) peek(place uint64, into *Batch) bool {
	b.mu.Unlock()
	defer b.mu.Lock()
	return b.read(place, into)
}

// TestBlackBoxMemory asserts that a black box uses the memory that it was given, and a little less at most.
func TestBlackBoxMemory(t *testing.T) {
	for _, size := range []int{1 << 20, 1<<20 + 13, 10 << 20, 64 << 20} {
		b := NewBlackBox(size)
		if used := len(b.room) + 8*len(b.heads); used > size || used < size-16 {
			t.Errorf("of %d bytes %d are used", size, used)
		}
	}
}

// TestOverwrittenRecords asserts that a reader counts records that the loop overwrites before it has read them.
func TestOverwrittenRecords(t *testing.T) {
	b := NewBlackBox(64 << 10)
	c := Captured{At: time.Unix(1_700_000_000, 0), From: clientAddr(1), To: listenerAddr}
	put := func(n int) {
		for range n {
			b.Put(&c, clientAddr(1), nil, make([]byte, 1000))
		}
	}
	put(40)
	all := b.Choose(new(RecordFilter))
	put(20)
	var got, left int
	if err := ReadOut(all, func(c *Catch) error {
		got, left = got+len(c.Captured), left+int(c.LeftOut.Clients)
		return nil
	}); err != nil || got+left != 40 || left == 0 || got == 0 {
		t.Errorf("%d read and %d overwritten, %v", got, left, err)
	}
}

// TestSpoolIsBounded asserts that datagrams without room are counted by side, and that kept datagrams are whole.
func TestSpoolIsBounded(t *testing.T) {
	for _, size := range []int{1, 4000} {
		ready := make(chan struct{}, 1)
		s := NewSpool(new(CaptureFilter), ready)
		datagram := make([]byte, size)
		room := min(maxSpoolCount, MaxSpool/size)
		for i := range room + 3 {
			datagram[0] = byte(i)
			s.Put(&Captured{Upstream: i%2 == 0}, nil, datagram)
		}
		got := s.Swap(new(Batch))
		if left := got.LeftOut; len(got.Captured) != room || left.Clients+left.Upstreams != 3 || left.Clients == 0 ||
			len(ready) != 1 {
			t.Fatalf("of %d bytes: %d kept of %d, left out %+v", size, len(got.Captured), room, left)
		}
		for i, c := range got.Captured {
			if len(c.Bytes) != size || c.Bytes[0] != byte(i) {
				t.Fatalf("datagram %d is %x", i, c.Bytes)
			}
		}
		s.Put(new(Captured), []byte("ab"), []byte("c"))
		if again := s.Swap(got); len(again.Captured) != 1 || string(again.Captured[0].Bytes) != "abc" ||
			again.LeftOut.Clients != 0 {
			t.Errorf("then %+v", again.Catch)
		}
	}
}
