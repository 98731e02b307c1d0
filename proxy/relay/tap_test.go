package relay

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"tidegate/internal/proxyproto"
	"tidegate/internal/testkit/allocs"
	"tidegate/proxy/relay/recording"
)

// tap begins a capture.
func (p *plainRelay) tap(f recording.CaptureFilter) *recording.Spool {
	s := recording.NewSpool(&f, make(chan struct{}, 1))
	p.relay.capture(s)
	p.relay.walk(p.now, recallCaptured, nil)
	return s
}

// feed gives the Relay a datagram as a loop does.
func (p *plainRelay) feed(from, at netip.AddrPort, datagram []byte) {
	p.Receive(p.now, from, at, slices.Clone(datagram))
}

// told describes the datagrams that a spool has got since the last call.
func told(s *recording.Spool) (all []string) {
	for _, c := range s.Swap(new(recording.Batch)).Captured {
		side, way := "client", "in"
		if c.Upstream {
			side = "upstream"
		}
		if c.Sent {
			way = "out"
		}
		all = append(all, fmt.Sprintf("%s %s %v>%v session %v: %s", side, way, c.From, c.To, c.Session, c.Bytes))
	}
	return all
}

func wantTold(t *testing.T, what string, s *recording.Spool, want ...string) {
	t.Helper()
	if got := told(s); !slices.Equal(got, want) {
		t.Errorf("%s: captured\n%q, want\n%q", what, got, want)
	}
}

// TestTap asserts that every datagram of a session is copied, on both sides and in both directions. Each copy has its
// session. After the end of the capture nothing is copied.
func TestTap(t *testing.T) {
	p := newPlainRelay(t, Any, unchanged)
	s := p.tap(recording.CaptureFilter{})
	own, server := upstreamSocketAddr(0), serverAddr
	p.feed(playerAddr(1), listenerAddr, []byte("hello"))
	p.feed(server, own, []byte("welcome"))
	wantTold(t, "all",
		s, fmt.Sprintf("client in %v>%v session 0: hello", playerAddr(1), listenerAddr),
		fmt.Sprintf("upstream out %v>%v session 1: hello", own, server),
		fmt.Sprintf("upstream in %v>%v session 1: welcome", server, own),
		fmt.Sprintf("client out %v>%v session 1: welcome", listenerAddr, playerAddr(1)))
	p.relay.endCapture(s)
	if p.relay.sockets.tap != nil || p.relay.sockets.Sockets != Sockets(p.relayNode) {
		t.Error("the tap outlives its last capture")
	}
	p.up(1, 0, server, []byte("later"))
	wantTold(t, "after the end", s)
	p.relay.endCapture(s) // Server.Capture may do this to a loop that never had the capture
}

// TestTapFilters asserts that each filter chooses the right datagrams of two players.
func TestTapFilters(t *testing.T) {
	p := newPlainRelay(t, Any, unchanged)
	p.meet(1, 0, serverAddr)
	p.meet(2, 1, secondAddr)
	for _, c := range []struct {
		filter recording.CaptureFilter
		want   []string // payloads
	}{
		{recording.CaptureFilter{}, []string{"one", "one", "two", "two", "back", "back"}},
		{recording.CaptureFilter{Session: 2}, []string{"two", "two", "back", "back"}},
		{recording.CaptureFilter{Session: 3}, nil},
		{recording.CaptureFilter{Client: netip.PrefixFrom(playerAddr(1).Addr(), 32)}, []string{"one", "one"}},
		{recording.CaptureFilter{Client: netip.PrefixFrom(playerAddr(0).Addr(), 24)},
			[]string{"one", "one", "two", "two", "back", "back"}},
		{recording.CaptureFilter{Client: netip.PrefixFrom(serverAddr.Addr(), 32)}, nil},
		{recording.CaptureFilter{Route: "arena"}, []string{"one", "one", "two", "two", "back", "back"}},
		{recording.CaptureFilter{Route: "other"}, nil},
		{recording.CaptureFilter{Upstream: "arena", Session: 1}, []string{"one", "one"}},
		{recording.CaptureFilter{Upstream: "other"}, nil},
	} {
		s := p.tap(c.filter)
		p.feed(playerAddr(1), listenerAddr, []byte("one"))
		p.feed(playerAddr(2), listenerAddr, []byte("two"))
		p.feed(secondAddr, upstreamSocketAddr(1), []byte("back"))
		p.relay.endCapture(s)
		var got []string
		for _, one := range s.Swap(new(recording.Batch)).Captured {
			got = append(got, string(one.Bytes))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%+v chooses %q, want %q", c.filter, got, c.want)
		}
	}
}

// TestTwoCaptures asserts that two captures have their own datagrams, and that the end of one does not end the other.
func TestTwoCaptures(t *testing.T) {
	p := newPlainRelay(t, Any, unchanged)
	p.meet(1, 0, serverAddr)
	p.meet(2, 1, secondAddr)
	first, second := p.tap(recording.CaptureFilter{Session: 1}), p.tap(recording.CaptureFilter{Session: 2})
	p.feed(playerAddr(1), listenerAddr, []byte("x"))
	p.relay.endCapture(first)
	p.feed(playerAddr(1), listenerAddr, []byte("y"))
	p.feed(playerAddr(2), listenerAddr, []byte("z"))
	if a, b := told(first), told(second); len(a) != 2 || len(b) != 2 {
		t.Errorf("%q and %q", a, b)
	}
}

// TestTapBehindFronts asserts that a capture finds a client behind a trusted proxy by its own address, in both
// directions.
func TestTapBehindFronts(t *testing.T) {
	for _, format := range []proxyproto.Format{proxyproto.V2, proxyproto.Simple} {
		p := trusting(t)
		s := p.tap(recording.CaptureFilter{Client: netip.PrefixFrom(playerAddr(1).Addr(), 32)})
		for i, text := range []string{"other", "mine"} {
			h := proxyproto.Header{Client: playerAddr(i), Proxy: listenerAddr, Format: format}
			p.feed(balancer(i), listenerAddr, headed(h, text))
			p.feed(serverAddrOf(i), upstreamSocketAddr(i), []byte("answer"))
		}
		got := s.Swap(new(recording.Batch)).Captured
		if len(got) != 4 || got[0].From != balancer(1) || got[3].To != balancer(1) || got[2].Session != 2 ||
			got[3].Session != 2 {
			t.Errorf("%v: captured %+v", format, got)
		}
		p.feed(playerAddr(1), listenerAddr, []byte("by itself"))
		p.feed(balancer(9), listenerAddr, []byte("whose?"))
		if got := told(s); len(got) != 2 {
			t.Errorf("%v: without a header captured %q", format, got)
		}
	}
}

// serverAddrOf returns the server of the i-th session.
func serverAddrOf(i int) netip.AddrPort { return []netip.AddrPort{serverAddr, secondAddr}[i%2] }

// TestCapturedFlowsComeBack asserts that the kernel does not forward a captured session. User space would not see
// forwarded datagrams.
func TestCapturedFlowsComeBack(t *testing.T) {
	p, f := newFerry(t, unchanged)
	p.meet(1, 0, serverAddr)
	p.meet(2, 1, secondAddr)
	first, second := flowOf(1, 0, serverAddr), flowOf(2, 1, secondAddr)
	f.want(t, "at first", first, second)
	s := p.tap(recording.CaptureFilter{Session: 1})
	f.want(t, "while the one is captured", second)
	p.up(1, 0, serverAddr, []byte("seen"))
	f.want(t, "after its next datagram", second)
	p.relay.endCapture(s)
	p.up(1, 0, serverAddr, []byte("unseen"))
	f.want(t, "after the capture", first, second)
}

// TestTapAllocatesNothing covers the time after a capture, and a running capture once it has its memory.
func TestTapAllocatesNothing(t *testing.T) {
	p := newPlainRelay(t, Any, unchanged)
	p.meet(1, 0, serverAddr)
	out := &swallower{relayNode: p.relayNode}
	p.relay.sockets.Sockets = out
	listenerSocket, up, datagram := p.sockets[listenerAddr], p.sockets[upstreamSocketAddr(0)], make([]byte, 200)
	round := func() {
		p.relay.Receive(p.now, listenerSocket, playerAddr(1), datagram)
		p.relay.Receive(p.now, up, serverAddr, datagram)
	}
	s := p.tap(recording.CaptureFilter{})
	round()
	used := s.Swap(new(recording.Batch))
	round()
	if n := allocs.PerRun(1000, func() {
		round()
		used = s.Swap(used)
	}); n != 0 || len(used.Captured) != 4 {
		t.Errorf("captured: %v allocations a round trip, %d datagrams", n, len(used.Captured))
	}
	p.relay.endCapture(s)
	if n := allocs.PerRun(1000, round); n != 0 || p.relay.sockets.Sockets != Sockets(out) {
		t.Errorf("afterwards: %v allocations a round trip", n)
	}
}
