package relay

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/internal/testkit/allocs"
	"tidegate/proxy/stats"
)

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
			client := playerAddr(rng.IntN(5))
			size := rng.IntN(300)
			if rng.IntN(50) == 0 {
				size = rng.IntN(codec.MaxDatagram)
			}
			c := Captured{
				At: start.Add(time.Duration(i) * time.Millisecond), From: client, To: listenerAddr,
				Upstream: rng.IntN(2) == 0, Sent: rng.IntN(2) == 0, Stream: rng.IntN(2) == 0,
				Session: SessionID(rng.IntN(9)), Bytes: make([]byte, size),
			}
			for j := range c.Bytes {
				c.Bytes[j] = byte(rng.Uint32())
			}
			b.put(&c, client, c.Bytes[:size/3], c.Bytes[size/3:])
			all = append(all, kept{c, client})
			if i%400 == 399 {
				sameAsModel(t, b, all, netip.AddrPort{})
				for n := range 5 {
					sameAsModel(t, b, all, playerAddr(n))
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
	c := Captured{At: time.Unix(1_700_000_000, 0), From: playerAddr(1), To: listenerAddr}
	put := func(n int) {
		for range n {
			b.put(&c, playerAddr(1), nil, make([]byte, 1000))
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

// record makes the Relay's sockets record.
func (p *plainRelay) record(size int) *BlackBox {
	b := NewBlackBox(size)
	p.relay.Record(b)
	return b
}

// texts returns the payloads of chosen records.
func texts(t *testing.T, all []Found) (texts []string) {
	t.Helper()
	if err := ReadOut(all, func(c *Catch) error {
		for i := range c.Captured {
			texts = append(texts, string(c.Captured[i].Bytes))
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return texts
}

// TestRecordFilters finds the datagrams of one session, also the first one, which came before the session began. A
// capture that ends does not end the recording.
func TestRecordFilters(t *testing.T) {
	p := newPlainRelay(t, Any, unchanged)
	b := p.record(1 << 20)
	p.feed(playerAddr(1), listenerAddr, []byte("hello"))
	p.feed(playerAddr(2), listenerAddr, []byte("good day"))
	s := p.tap(CaptureFilter{})
	p.feed(serverAddr, upstreamSocketAddr(0), []byte("welcome"))
	p.relay.EndCapture(s)
	p.feed(secondAddr, upstreamSocketAddr(1), []byte("come in"))
	first := []string{"hello", "hello", "welcome", "welcome"}
	second := []string{"good day", "good day", "come in", "come in"}
	for _, c := range []struct {
		filter RecordFilter
		want   []string
	}{
		{RecordFilter{}, []string{"hello", "hello", "good day", "good day", "welcome", "welcome", "come in", "come in"}},
		{RecordFilter{Session: 1}, first},
		{RecordFilter{Session: 2}, second},
		{RecordFilter{Session: 3}, nil},
		{RecordFilter{Client: netip.PrefixFrom(playerAddr(2).Addr(), 32)}, second},
		{RecordFilter{Client: netip.PrefixFrom(serverAddr.Addr(), 32)}, nil},
	} {
		if got := texts(t, b.Choose(&c.filter)); !slices.Equal(got, c.want) {
			t.Errorf("%+v chooses %q, want %q", c.filter, got, c.want)
		}
	}
}

// TestRecordedFlowsComeBack asserts that the kernel forwards no session while a black box records.
func TestRecordedFlowsComeBack(t *testing.T) {
	p, f := newFerry(t, unchanged)
	p.record(1 << 20)
	p.meet(1, 0, serverAddr)
	f.want(t, "while it records")
}

// TestAbnormalEnds says which ends of sessions are reported.
func TestAbnormalEnds(t *testing.T) {
	for _, c := range []struct {
		blame            stats.Party
		why              codec.Reason
		terminated, both bool
	}{
		{stats.ByClient, codec.Closed, false, false},
		{stats.ByUpstream, codec.Closed, false, false},
		{stats.ByProxy, codec.ServerStopped, false, false},
		{stats.ByUpstream, codec.ServerStopped, true, true},
		{stats.ByClient, codec.TimedOut, true, false},
		{stats.ByProxy, codec.TimedOut, true, false},
		{stats.ByProxy, codec.Kicked, true, true},
		{stats.ByUpstream, codec.Kicked, true, true},
		{stats.ByProxy, codec.Violation, true, true},
		{stats.ByUpstream, codec.NoConnection, true, true},
	} {
		plain := &session{life: joined}
		whole := &session{life: joined, terminated: new(terminated)}
		if got := isAbnormal(whole, c.blame, c.why); got != c.terminated {
			t.Errorf("terminated, by %v, %v: %t", c.blame, c.why, got)
		}
		if got := isAbnormal(plain, c.blame, c.why); got != c.both {
			t.Errorf("relayed, by %v, %v: %t", c.blame, c.why, got)
		}
		if isAbnormal(&session{terminated: new(terminated)}, c.blame, c.why) {
			t.Errorf("never established, by %v, %v is reported", c.blame, c.why)
		}
	}
}

// carried makes a Relay with one session, and a function that carries a datagram each way.
func carried(t testing.TB, size int) (p *plainRelay, round func()) {
	p = newPlainRelay(t, Any, unchanged)
	p.meet(1, 0, serverAddr)
	p.relay.sockets.Sockets = &swallower{relayNode: p.relayNode}
	if size > 0 {
		p.record(size)
	}
	listener, up, datagram := p.sockets[listenerAddr], p.sockets[upstreamSocketAddr(0)], make([]byte, 200)
	return p, func() {
		p.relay.Receive(p.now, listener, playerAddr(1), datagram)
		p.relay.Receive(p.now, up, serverAddr, datagram)
	}
}

// TestRecordingAllocatesNothing asserts that neither a Relay that records nor one that does not allocates.
func TestRecordingAllocatesNothing(t *testing.T) {
	for _, size := range []int{0, 1 << 20} {
		_, round := carried(t, size)
		if n := allocs.PerRun(5000, round); n != 0 {
			t.Errorf("with %d bytes: %v allocations a round trip", size, n)
		}
	}
}

// BenchmarkRecording carries a datagram of 200 bytes each way: four copies, if a black box records.
func BenchmarkRecording(b *testing.B) {
	for _, size := range []int{0, 1 << 20, 64 << 20} {
		b.Run(fmt.Sprintf("%dMiB", size>>20), func(b *testing.B) {
			_, round := carried(b, size)
			b.ReportAllocs()
			for b.Loop() {
				round()
			}
		})
	}
}
