package relay

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"tidegate/codec"
	"tidegate/internal/testkit/allocs"
	"tidegate/proxy/relay/recording"
	"tidegate/proxy/stats"
)

// record makes the Relay's sockets record.
func (p *plainRelay) record(size int) *recording.BlackBox {
	b := recording.NewBlackBox(size)
	p.relay.record(b)
	return b
}

// texts returns the payloads of chosen records.
func texts(t *testing.T, all []recording.Found) (texts []string) {
	t.Helper()
	if err := recording.ReadOut(all, func(c *recording.Catch) error {
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
	s := p.tap(recording.CaptureFilter{})
	p.feed(serverAddr, upstreamSocketAddr(0), []byte("welcome"))
	p.relay.endCapture(s)
	p.feed(secondAddr, upstreamSocketAddr(1), []byte("come in"))
	first := []string{"hello", "hello", "welcome", "welcome"}
	second := []string{"good day", "good day", "come in", "come in"}
	for _, c := range []struct {
		filter recording.RecordFilter
		want   []string
	}{
		{recording.RecordFilter{}, []string{
			"hello", "hello", "good day", "good day", "welcome", "welcome", "come in", "come in",
		}},
		{recording.RecordFilter{Session: 1}, first},
		{recording.RecordFilter{Session: 2}, second},
		{recording.RecordFilter{Session: 3}, nil},
		{recording.RecordFilter{Client: netip.PrefixFrom(playerAddr(2).Addr(), 32)}, second},
		{recording.RecordFilter{Client: netip.PrefixFrom(serverAddr.Addr(), 32)}, nil},
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
		plain := &link{life: joined}
		whole := &link{life: joined, terminated: new(terminated)}
		if got := isAbnormal(whole, c.blame, c.why); got != c.terminated {
			t.Errorf("terminated, by %v, %v: %t", c.blame, c.why, got)
		}
		if got := isAbnormal(plain, c.blame, c.why); got != c.both {
			t.Errorf("relayed, by %v, %v: %t", c.blame, c.why, got)
		}
		if isAbnormal(&link{terminated: new(terminated)}, c.blame, c.why) {
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
