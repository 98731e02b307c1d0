package relay

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/internal/kernel/flow"
	"tidegate/internal/netio"
	"tidegate/internal/policy"
	"tidegate/internal/testkit/allocs"
	"tidegate/proxy/stats"
	"tidegate/ratelimit"
)

// ferry is a Forwarder that records its flows.
type ferry struct {
	flows   map[flow.Flow]*flow.Usage
	rate    flow.Rate // of the last flow
	refuses error
	changes uint64
	asked   int
}

func (f *ferry) Add(of flow.Flow, r flow.Rate) error {
	f.asked++
	if f.refuses == nil {
		f.flows[of], f.rate = &flow.Usage{}, r
	}
	return f.refuses
}

func (f *ferry) Delete(of flow.Flow) (last flow.Traffic, ok bool) {
	u, ok := f.flows[of]
	delete(f.flows, of)
	if !ok {
		return flow.Traffic{}, false
	}
	return u.Traffic, true
}

func (f *ferry) Usage(of flow.Flow) (flow.Usage, bool) {
	if u := f.flows[of]; u != nil {
		return *u, true
	}
	return flow.Usage{}, false
}

func (f *ferry) Changes() uint64 { return f.changes }

// loses removes all flows, as a change of the network does.
func (f *ferry) loses() {
	clear(f.flows)
	f.changes++
}

func newFerry(t testing.TB, change func(*Settings)) (*plainRelay, *ferry) {
	t.Helper()
	p := newPlainRelay(t, Any, change)
	f := &ferry{flows: make(map[flow.Flow]*flow.Usage)}
	p.relay.offload.forwarder = f
	return p, f
}

// flowOf returns the flow of player i with its n-th socket to the server.
func flowOf(i, n int, server netip.AddrPort) flow.Flow {
	return flow.Flow{Client: playerAddr(i), Listener: listenerAddr, Source: upstreamSocketAddr(n), Server: server}
}

func (f *ferry) want(t *testing.T, when string, want ...flow.Flow) {
	t.Helper()
	if len(f.flows) != len(want) {
		t.Fatalf("%s there are %d flows, want %d", when, len(f.flows), len(want))
	}
	for _, w := range want {
		if f.flows[w] == nil {
			t.Fatalf("%s there is no flow %+v among %v", when, w, f.flows)
		}
	}
}

func dropping(of ratelimit.Quantity, per ratelimit.Scope, rate, burst int) ratelimit.Limit {
	return ratelimit.Limit{Of: of, Per: per, Rate: ratelimit.Rate{PerSecond: rate, Burst: burst}, Verdict: ratelimit.Drop}
}

// TestForwarded checks when a session is given to the Forwarder. A forwarded session is silent in user space, and
// this silence does not end it.
func TestForwarded(t *testing.T) {
	p, f := newFerry(t, func(s *Settings) {
		s.Bounds = []ratelimit.Limit{
			dropping(ratelimit.Packets, ratelimit.PerSession, 100, 200),
			dropping(ratelimit.Bytes, ratelimit.PerSession, 5000, 9000),
			dropping(ratelimit.Handshakes, ratelimit.PerAddress, 100, 200),
		}
	})
	p.up(1, 0, serverAddr, []byte("hello"))
	p.down(1, 0, serverAddr, []byte("hello yourself"))
	f.want(t, "before the client has heard an answer")
	p.up(1, 0, serverAddr, []byte("play"))
	of := flowOf(1, 0, serverAddr)
	f.want(t, "once the client has spoken again", of)
	if want := (flow.Rate{Packets: 100, PacketBurst: 200, Bytes: 5000, ByteBurst: 9000}); f.rate != want {
		t.Errorf("rate is %+v, want %+v", f.rate, want)
	}
	p.up(1, 0, serverAddr, []byte("cut in two on its way"))
	if f.asked != 1 {
		t.Errorf("the Forwarder was asked %d times, want once", f.asked)
	}
	f.flows[of].FromClient = flow.Count{Packets: 10, Bytes: 1000}
	f.flows[of].FromServer = flow.Count{Packets: 20, Bytes: 3000}
	s := p.relay.Snapshot(p.now).Sessions[0]
	if s.FromClient.Messages != 13 || s.FromUpstream.Messages != 21 {
		t.Errorf("at once, %+v came from the client and %+v from the server", s.FromClient, s.FromUpstream)
	}
	for range 10 {
		f.flows[of].ClientIdle = 5 * time.Second
		p.wait(29 * time.Second)
		f.want(t, "while the client is heard", of)
	}
	s = p.relay.Snapshot(p.now).Sessions[0]
	if want := (stats.Traffic{Messages: 13, Bytes: 1000 + 5 + 4 + 21}); !s.Forwarded || s.FromClient != want {
		t.Errorf("forwarded is %t, and %+v came from the client, want %+v", s.Forwarded, s.FromClient, want)
	}
	if want := (stats.Traffic{Messages: 21, Bytes: 3000 + 14}); s.FromUpstream != want {
		t.Errorf("%+v came from the server, want %+v", s.FromUpstream, want)
	}
	if c := p.relay.counters; c.RelayedUp.Messages != 3 || c.RelayedDown.Messages != 1 {
		t.Errorf("counters have %+v and %+v, want what came here", c.RelayedUp, c.RelayedDown)
	}
	f.flows[of].ClientIdle = 31 * time.Second
	p.wait(30 * time.Second)
	f.want(t, "after the client's silence")
	if n := len(p.relay.Snapshot(p.now).Sessions); n != 0 {
		t.Errorf("%d sessions, want none", n)
	}
}

// TestTopOfForwarded checks that sessions are sorted by what the kernel has forwarded until now.
func TestTopOfForwarded(t *testing.T) {
	p, f := newFerry(t, unchanged)
	p.meet(1, 0, serverAddr)
	before := p.relay.Snapshot(p.now).Sessions[0]
	f.flows[flowOf(1, 0, serverAddr)].FromClient = flow.Count{Packets: 50}
	q := &RankSessions{Sort: ByMessages}
	visit := q.ranking()
	for e := range p.relay.table.All {
		if cost := visit(p.relay, p.now, e); cost != asked {
			t.Errorf("the visit cost %d, want %d", cost, asked)
		}
	}
	if want := before.FromClient.Messages + before.FromUpstream.Messages + 50; q.found[0].key != float64(want) {
		t.Errorf("the session has %.0f messages, want %d", q.found[0].key, want)
	}
}

// TestForwardingEnds ends sessions in every way except by silence.
func TestForwardingEnds(t *testing.T) {
	for _, test := range []struct {
		what string
		end  func(p *plainRelay)
	}{
		{"ban", func(p *plainRelay) {
			a := playerAddr(1).Addr()
			p.relay.guard.Bans.Add(ratelimit.Ban{Prefix: netip.PrefixFrom(a, a.BitLen())})
			p.relay.EnforceBans(p.now)
		}},
		{"kick", func(p *plainRelay) {
			if err := kick(p.relay, p.now, p.relay.Snapshot(p.now).Sessions[0].ID, ""); err != nil {
				p.t.Fatal(err)
			}
		}},
		{"drain", func(p *plainRelay) { p.relay.Drain(p.now) }},
		{"server that is gone", func(p *plainRelay) {
			for range refusals {
				p.relay.Failed(p.now, p.sockets[upstreamSocketAddr(0)], errors.New("refused"))
				p.now = p.now.Add(refusedTime)
			}
		}},
	} {
		t.Run(test.what, func(t *testing.T) {
			p, f := newFerry(t, unchanged)
			p.meet(1, 0, serverAddr)
			f.want(t, "in a session", flowOf(1, 0, serverAddr))
			test.end(p)
			f.want(t, "after its end")
		})
	}
}

// TestServerThatIsHeardElsewhere asserts that only refusals in a row end a session. Here the kernel forwards answers
// between the refusals.
func TestServerThatIsHeardElsewhere(t *testing.T) {
	p, f := newFerry(t, unchanged)
	p.meet(1, 0, serverAddr)
	of := flowOf(1, 0, serverAddr)
	for range 3 * refusals {
		f.flows[of].FromServer.Packets++
		p.relay.Failed(p.now, p.sockets[upstreamSocketAddr(0)], errors.New("refused"))
		p.now = p.now.Add(refusedTime)
	}
	f.want(t, "after refusals and answers", of)
}

// TestWayChanges removes flows. The next datagram in user space adds them again, and no forwarded datagram counts
// twice.
func TestWayChanges(t *testing.T) {
	p, f := newFerry(t, unchanged)
	p.meet(1, 0, serverAddr)
	of := flowOf(1, 0, serverAddr)
	f.loses()
	p.up(1, 0, serverAddr, []byte("where to"))
	f.want(t, "after a datagram", of)
	f.loses()
	p.down(1, 0, serverAddr, []byte("where to"))
	f.want(t, "after an answer", of)
	f.loses()
	p.wait(29 * time.Second)
	p.wait(2 * time.Second)
	f.want(t, "after silence")
}

// TestRefusedFlows asserts that user space carries a session that the Forwarder refuses. The Relay does not offer it
// again with each datagram, but after a change.
func TestRefusedFlows(t *testing.T) {
	p, f := newFerry(t, unchanged)
	f.refuses = flow.ErrFull
	p.meet(1, 0, serverAddr)
	p.up(1, 0, serverAddr, []byte("on"))
	p.down(1, 0, serverAddr, []byte("and on"))
	if f.asked != 1 {
		t.Errorf("the Forwarder was asked %d times, want once", f.asked)
	}
	f.changes++
	p.up(1, 0, serverAddr, []byte("a change"))
	p.wait(20 * time.Second)
	p.up(1, 0, serverAddr, []byte("still here"))
	if f.asked != 2 {
		t.Errorf("the Forwarder was asked %d times, want twice", f.asked)
	}
	f.refuses = nil
	p.wait(15 * time.Second)
	p.up(1, 0, serverAddr, []byte("after a look at the deadline"))
	f.want(t, "when there is room", flowOf(1, 0, serverAddr))
}

// TestReloadedForwarding asserts that a reload updates the forwarding of sessions, or ends it, as the new settings
// demand.
func TestReloadedForwarding(t *testing.T) {
	p, f := newFerry(t, unchanged)
	p.meet(1, 0, serverAddr)
	next := *p.settings
	next.Bounds = []ratelimit.Limit{dropping(ratelimit.Packets, ratelimit.PerSession, 7, 7)}
	p.relay.Reload(p.now, &next, make([]netio.Socket, 1))
	f.want(t, "at once")
	p.up(1, 0, serverAddr, []byte("on"))
	f.want(t, "after a datagram", flowOf(1, 0, serverAddr))
	if f.rate.Packets != 7 {
		t.Errorf("rate is %+v", f.rate)
	}
	next.Bounds = []ratelimit.Limit{dropping(ratelimit.Packets, ratelimit.PerAddress, 7, 7)}
	p.relay.Reload(p.now, &next, make([]netio.Socket, 1))
	p.up(1, 0, serverAddr, []byte("on"))
	f.want(t, "with a limit that only user space knows")
}

// TestForwardable checks which listeners' sessions the kernel may carry.
func TestForwardable(t *testing.T) {
	for _, test := range []struct {
		what   string
		change func(s *Settings)
		want   error
	}{
		{"relay", unchanged, nil},
		{"terminated", func(s *Settings) { s.Listeners[0].Route.Mode = policy.ModeTerminate }, errTerminated},
		{"headers from players' proxies", func(s *Settings) {
			s.Listeners[0].ProxiesFrom = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
		}, errHeaders},
		{"headers to servers", func(s *Settings) { s.Listeners[0].Route.Upstream.Headers = policy.HeadersEvery }, errHeaders},
		{"TCP", func(s *Settings) { s.Listeners[0].Transport.Stream = true }, errTransport},
		{"transparent", func(s *Settings) { s.Listeners[0].Route.Upstream.Transport.Transparent = true }, errBorrowed},
		{"pace", func(s *Settings) { s.Listeners[0].Route.Upstream.Pace.Datagrams = 1 }, errPace},
		{"limit of handshakes", func(s *Settings) {
			s.Bounds = []ratelimit.Limit{{Of: ratelimit.Handshakes, Per: ratelimit.Overall, Verdict: ratelimit.Drop}}
		}, nil},
		{"shared limit", func(s *Settings) {
			s.Bounds = []ratelimit.Limit{{Of: ratelimit.Bytes, Per: ratelimit.PerNetwork, Verdict: ratelimit.Drop}}
		}, errShareLimit},
		{"limit that observes", func(s *Settings) {
			s.Bounds = []ratelimit.Limit{{Of: ratelimit.Bytes, Per: ratelimit.PerSession, Verdict: ratelimit.Observe}}
		}, errShareLimit},
	} {
		s := &Settings{Listeners: []Listener{{Name: "play", Protocols: []codec.Protocol{Any}, Route: plainRoute(Any)}}}
		test.change(s)
		if got := s.Forwardable(&s.Listeners[0]); !errors.Is(got, test.want) || (got == nil) != (test.want == nil) {
			t.Errorf("%s: %v, want %v", test.what, got, test.want)
		}
	}
}

// TestForwardingAllocatesNothing covers datagrams in user space, both of forwarded sessions and of refused ones.
func TestForwardingAllocatesNothing(t *testing.T) {
	for _, refuses := range []error{nil, flow.ErrFull} {
		p, f := newFerry(t, unchanged)
		f.refuses = refuses
		p.meet(1, 0, serverAddr)
		out := &swallower{relayNode: p.relayNode}
		p.relay.sockets.Sockets = out
		listenerSocket, up, datagram := p.sockets[listenerAddr], p.sockets[upstreamSocketAddr(0)], make([]byte, 200)
		n := allocs.PerRun(1000, func() {
			p.relay.Receive(p.now, listenerSocket, playerAddr(1), datagram)
			p.relay.Receive(p.now, up, serverAddr, datagram)
		})
		if n != 0 || out.bytes != 1001*400 {
			t.Errorf("refused with %v: %v allocations a round trip, %d bytes passed", refuses, n, out.bytes)
		}
	}
}
