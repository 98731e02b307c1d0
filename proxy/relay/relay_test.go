package relay

import (
	"bytes"
	"errors"
	"net/netip"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest/simnet"
	"tidegate/codec/raknet"
	"tidegate/codec/riptide"
	"tidegate/codec/rudp"
	"tidegate/internal/policy"
	"tidegate/internal/registry"
	"tidegate/internal/upstream"
	"tidegate/proxy/bridge"
	"tidegate/proxy/stats"
	"tidegate/session"
)

func raknet6() codec.Protocol { return raknet.New(raknet.Options{}) }

func riptide22() codec.Protocol { return riptide.New(riptide.Options{}) }

// riptideWorld joins Riptide players to Riptide servers.
func riptideWorld(t *testing.T, change func(r *Route)) *world {
	route := defaultRoute(riptide22())
	if change != nil {
		change(route)
	}
	return newWorld(t, 1, simnet.Weather{Latency: 20 * time.Millisecond}, riptide22(), route)
}

func TestIdentityPassesThrough(t *testing.T) {
	w := riptideWorld(t, nil)
	first := w.connect(codec.Hello{Data: []byte{'h', 'i', 5}, Pad: 4})
	second := w.connect(codec.Hello{})
	asked := w.servers[0].peers[0].find(codec.Asked)
	if !bytes.Equal(asked.Payload, []byte{'h', 'i', 5}) || asked.Pad != 4 {
		t.Errorf("connect data came as %x, pad %d", asked.Payload, asked.Pad)
	}
	if a, b := first.find(codec.Connected).Client, second.find(codec.Connected).Client; a != 101 || b != 102 {
		t.Errorf("client IDs %d and %d, want the upstream's 101 and 102", a, b)
	}
	_ = w.servers[0].peers[0].conn.Announce(w.Now(), codec.Joined, 102)
	_ = w.servers[0].peers[0].conn.Announce(w.Now(), codec.Left, 77)
	w.Run(time.Second)
	joined, left := first.find(codec.Joined), first.find(codec.Left)
	if joined == nil || joined.Client != 102 || left == nil || left.Client != 77 {
		t.Errorf("news came as %v and %v", joined, left)
	}
}

func TestEveryBitOfAMessagePasses(t *testing.T) {
	w := riptideWorld(t, nil)
	p := w.connect(codec.Hello{})
	for mode := range codec.Mode(6) {
		if !riptide22().Spec().Modes.Has(mode) {
			continue
		}
		m := codec.Message{Payload: []byte{1, 2, 0x0b}, Pad: 4, Mode: mode}
		if mode != codec.Notify {
			m.ID, m.HasID = 4711, true
		}
		before := len(p.received())
		w.send(&p.peer, m)
		w.Run(time.Second)
		all := p.received()
		if len(all) != before+1 {
			t.Errorf("%v: %d messages came back, want 1", mode, len(all)-before)
			continue
		}
		got := all[before]
		if !bytes.Equal(got.Payload, m.Payload) || got.Pad != 4 || got.Mode != mode || got.ID != m.ID ||
			got.HasID != m.HasID {
			t.Errorf("%v: came back as %+v", mode, got)
		}
	}
}

func TestRefusalReachesTheClient(t *testing.T) {
	for _, c := range []struct {
		say  codec.Goodbye
		want codec.Goodbye
	}{
		{codec.Goodbye{Reason: codec.RejectedCustom, Data: []byte("banned: until 2030")},
			codec.Goodbye{Reason: codec.RejectedCustom, Data: []byte("banned: until 2030")}},
		{codec.Goodbye{Reason: codec.Rejected}, codec.Goodbye{Reason: codec.Rejected}},
		{codec.Goodbye{Reason: codec.ServerFull}, codec.Goodbye{Reason: codec.ServerFull}},
	} {
		w := riptideWorld(t, nil)
		w.servers[0].react = func(now time.Time, p *peer, ev *codec.Event) {
			if ev.Kind == codec.Asked {
				p.conn.Close(now, c.say)
			}
		}
		p := w.join(codec.Hello{})
		w.await("refused", 10*time.Second, p.gone)
		end := p.find(codec.Disconnected)
		if end.Reason != c.want.Reason || !bytes.Equal(end.Payload, c.want.Data) {
			t.Errorf("refused with %v %q, want %v %q", end.Reason, end.Payload, c.want.Reason, c.want.Data)
		}
		if w.Run(time.Second); w.proxy.relay.table.Len() != 0 {
			t.Error("the refused session is kept")
		}
	}
}

// TestGoodbyeOfRUDPIsAStop: a server of RUDP says goodbye when it stops, and cannot kick. So a player is not told that
// it was kicked. The proxy can kick.
func TestGoodbyeOfRUDPIsAStop(t *testing.T) {
	route := defaultRoute(rudp.New(rudp.Options{AppID: 7}))
	route.Bridge.AllowLossy, route.Bridge.Envelope = true, policy.EnvelopeFramed
	w := newWorld(t, 1, simnet.Weather{}, riptide22(), route)
	stopped, kicked := w.connect(codec.Hello{}), w.connect(codec.Hello{})
	w.servers[0].peers[0].conn.Close(w.Now(), codec.Goodbye{Reason: codec.Closed})
	w.await("stopped", believed, stopped.gone)
	r := w.proxy.relay
	for _, s := range list(r, w.Now(), ListSessions{Limit: 9}) {
		if err := kick(r, w.Now(), s.ID, ""); s.Established && err != nil {
			t.Error(err)
		}
	}
	w.await("kicked", believed, kicked.gone)
	if s, k := stopped.find(codec.Disconnected).Reason, kicked.find(codec.Disconnected).Reason; s != codec.ServerStopped ||
		k != codec.Kicked {
		t.Errorf("told %v and %v", s, k)
	}
}

func TestKickReachesTheClient(t *testing.T) {
	w := riptideWorld(t, nil)
	kicked, other := w.connect(codec.Hello{}), w.connect(codec.Hello{})
	w.servers[0].peers[0].conn.Close(w.Now(), codec.Goodbye{Reason: codec.Kicked, Data: []byte("afk")})
	w.await("kicked", believed, kicked.gone)
	if end := kicked.find(codec.Disconnected); end.Reason != codec.Kicked || string(end.Payload) != "afk" {
		t.Errorf("kicked with %v %q", end.Reason, end.Payload)
	}
	if w.Run(time.Second); other.gone() {
		t.Error("the other player was thrown out too")
	}
}

func TestClientsGoodbyeReachesTheUpstream(t *testing.T) {
	w := riptideWorld(t, nil)
	p := w.connect(codec.Hello{})
	p.conn.Close(w.Now(), codec.Goodbye{Reason: codec.Closed})
	w.await("told", 2*believed, w.servers[0].peers[0].gone)
	if end := w.servers[0].peers[0].find(codec.Disconnected); end.Reason != codec.Closed {
		t.Errorf("the upstream was told %v", end.Reason)
	}
	if !w.proxy.sockets[upstreamSocketAddr(0)].closed {
		t.Error("the socket towards the upstream is still open")
	}
}

// TestClientsGoodbyeData asserts that the data of a client's goodbye reaches a server, if the server's protocol
// carries it. No other end of a session sends data to a server.
func TestClientsGoodbyeData(t *testing.T) {
	enet, data := named("enet", registry.Use{}), []byte{1, 2, 3, 4}
	for _, upstream := range members(noRType) {
		t.Run(upstream.String(), func(t *testing.T) {
			route := matrixRoute(enet, upstream.Protocol)
			route.Upstream.Transport = upstream.transport
			w := newWorldWith(t, 1, simnet.Weather{Latency: time.Millisecond}, enet, route, func(*Settings) {})
			w.servers[0].react = func(now time.Time, p *peer, ev *codec.Event) {
				if ev.Kind == codec.Asked {
					p.conn.Admit(now, 101)
				}
			}
			leaves, stays := w.connect(codec.Hello{}), w.connect(codec.Hello{})
			w.Run(time.Second)
			leaves.conn.Close(w.Now(), codec.Goodbye{Reason: codec.Closed, Data: data})
			w.Run(time.Second)
			if stays.gone() {
				t.Fatal("the other player is gone, too")
			}
			w.proxy.relay.Drain(w.Now())
			w.Run(10 * time.Second)
			wants := [][]byte{nil, nil}
			if upstream.Spec().Name == "enet" {
				wants[0] = data
			}
			for i, want := range wants {
				if end := w.servers[0].peers[i].find(codec.Disconnected); end == nil || !bytes.Equal(end.Payload, want) {
					t.Errorf("server's side of player %d: %+v, want data %x", i, end, want)
				}
			}
		})
	}
}

func TestUpstreamThatIsDown(t *testing.T) {
	w := riptideWorld(t, nil)
	w.servers[0].down = true
	p := w.join(codec.Hello{})
	w.await("refused", 12*time.Second, p.gone)
	if end := p.find(codec.Disconnected); end.Reason != codec.NoConnection {
		t.Errorf("refused with %v, want no-connection", end.Reason)
	}
	// The server rests now. There is no other, so it is asked again.
	q := w.join(codec.Hello{})
	w.Run(time.Second)
	w.servers[0].down = false
	w.await("connected", 2*time.Second, func() bool { return q.find(codec.Connected) != nil })
}

func TestAnotherServerIsTried(t *testing.T) {
	w := riptideWorld(t, func(r *Route) { r.Upstream.Servers = []upstream.Target{{Addr: serverAddr}, {Addr: secondAddr}} })
	w.servers[0].down = true
	w.connect(codec.Hello{Data: []byte("hello")})
	if asked := w.servers[1].peers[0].find(codec.Asked); string(asked.Payload) != "hello" {
		t.Errorf("the second server was asked with %q", asked.Payload)
	}
}

// TestSilentServersAreGivenUpInTime asserts that a silent server gets only a share of a RakNet client's patience, and
// then rests. A RakNet client waits no longer than the proxy's own attempt would take.
func TestSilentServersAreGivenUpInTime(t *testing.T) {
	route := defaultRoute(raknet6())
	route.Upstream.Servers = []upstream.Target{{Addr: serverAddr}, {Addr: secondAddr}}
	route.Upstream.Options.RetryAfter = time.Minute
	w := newWorld(t, 1, simnet.Weather{Latency: 5 * time.Millisecond}, raknet6(), route)
	w.settings.HandshakeTimeout = 9 * time.Second
	w.servers[0].down = true
	begin := w.Now()
	w.connect(codec.Hello{})
	if took := w.Now().Sub(begin); took > 4*time.Second || len(w.servers[1].peers) != 1 {
		t.Errorf("connected after %v; the second server has %d sessions", took, len(w.servers[1].peers))
	}
	begin = w.Now()
	w.connect(codec.Hello{})
	if took := w.Now().Sub(begin); took > time.Second {
		t.Errorf("the silent server was asked again: connected after %v", took)
	}
}

// TestServersThatDecideAreWaitedFor asserts that a server that has answered but not decided does not count as silent.
func TestServersThatDecideAreWaitedFor(t *testing.T) {
	w := riptideWorld(t, nil)
	w.servers[0].react = func(now time.Time, p *peer, ev *codec.Event) {
		if ev.Kind == codec.Asked {
			w.After(8*time.Second, func() { p.conn.Admit(w.Now(), 1) })
		}
	}
	p := w.join(codec.Hello{})
	w.await("connected", 9*time.Second, func() bool { return p.find(codec.Connected) != nil })
}

// TestNoSocketTowardsTheUpstream asserts that a client joins as soon as there is a socket to a server, and is told in
// time if there is none.
func TestNoSocketTowardsTheUpstream(t *testing.T) {
	w := riptideWorld(t, nil)
	w.proxy.noDial = errors.New("network is unreachable")
	p := w.join(codec.Hello{})
	w.Run(time.Second)
	w.proxy.noDial = nil
	w.await("connected", 300*time.Millisecond, func() bool { return p.find(codec.Connected) != nil })
	if w.drops(stats.DropSocket) == 0 {
		t.Error("nothing counted")
	}
	w.proxy.noDial = errors.New("too many open files")
	q := w.join(codec.Hello{})
	w.await("refused", w.settings.HandshakeTimeout+time.Second, q.gone)
}

func TestFullTable(t *testing.T) {
	w := riptideWorld(t, nil)
	limits := session.Limits{Sessions: 2, HalfOpen: 2}
	w.proxy.relay.table = sessionTable{Table: session.NewTable[link](limits, w.Now())}
	first := w.connect(codec.Hello{})
	w.connect(codec.Hello{})
	late := w.join(codec.Hello{})
	w.await("refused", time.Second, late.gone)
	if end := late.find(codec.Disconnected); end.Reason != codec.ServerFull || w.drops(stats.DropTableFull) == 0 {
		t.Errorf("refused with %v, counted %d", end.Reason, w.drops(stats.DropTableFull))
	}
	first.conn.Close(w.Now(), codec.Goodbye{Reason: codec.Closed})
	w.Run(believed)
	w.connect(codec.Hello{})
}

func TestDatagramsOfNobody(t *testing.T) {
	w := riptideWorld(t, nil)
	p := w.connect(codec.Hello{})
	stranger := netip.MustParseAddrPort("192.0.2.1:4000")
	w.Inject(0, stranger, listenerAddr, []byte("GET / HTTP/1.1"))
	w.Inject(0, stranger, listenerAddr, nil)
	w.Inject(0, netip.AddrPortFrom(stranger.Addr(), 0), listenerAddr, []byte{2})
	w.Inject(0, p.addr, listenerAddr, []byte{0x0f, 0xff})
	w.Inject(0, serverAddr, upstreamSocketAddr(0), nil)
	w.Run(time.Second)
	for _, c := range []struct {
		why  stats.Drop
		want uint64
	}{{stats.DropUnknownProtocol, 1}, {stats.DropEmpty, 2}, {stats.DropSourcePort, 1}} {
		if got := w.drops(c.why); got != c.want {
			t.Errorf("%v: counted %d, want %d", c.why, got, c.want)
		}
	}
	if w.proxy.relay.table.Len() != 1 || p.gone() {
		t.Error("the session did not stay as it was")
	}
}

func TestOversizeClosesOnlyWhatWasPromised(t *testing.T) {
	small := riptide.New(riptide.Options{MaxPayload: 100})
	for _, c := range []struct {
		mode  codec.Mode
		lossy bool
		ends  bool
	}{{codec.Unreliable, false, false}, {codec.Reliable, false, true}, {codec.Reliable, true, false}} {
		w := newWorld(t, 1, simnet.Weather{}, riptide22(), defaultRoute(small))
		w.settings.Listeners[0].Route.Bridge.AllowLossy = c.lossy
		w.proxy.relay.listeners[0].entries[0].bridge = bridge.New(riptide22(), small, &w.settings.Listeners[0].Route.Bridge)
		p, other := w.connect(codec.Hello{}), w.connect(codec.Hello{})
		w.send(&p.peer, codec.Message{Payload: make([]byte, 500), Mode: c.mode, ID: 1, HasID: true})
		w.Run(time.Second)
		if p.gone() != c.ends || other.gone() || w.drops(stats.DropTooLarge) != 1 {
			t.Errorf("%v, lossy %v: ended %v, other ended %v, counted %d; want %v, false, 1",
				c.mode, c.lossy, p.gone(), other.gone(), w.drops(stats.DropTooLarge), c.ends)
		}
	}
}

func TestDrainSaysGoodbye(t *testing.T) {
	w := riptideWorld(t, nil)
	var all []*player
	for range 3 {
		all = append(all, w.connect(codec.Hello{}))
	}
	w.Run(50 * time.Millisecond) // until the last welcome has come, as clients without proof get few bytes
	w.proxy.relay.Drain(w.Now())
	w.await("drained", 5*time.Second, w.proxy.relay.Drained)
	w.Run(believed)
	for i, p := range all {
		if end := p.find(codec.Disconnected); end == nil || end.Reason != codec.ServerStopped {
			t.Errorf("player %d was told %v", i, end)
		}
		if end := w.servers[0].peers[i].find(codec.Disconnected); end == nil || end.Reason != codec.Closed {
			t.Errorf("upstream %d was told %v", i, end)
		}
	}
	late := w.join(codec.Hello{})
	w.await("refused", time.Second, late.gone)
}

// TestSilentClientsAreGivenUp: a protocol's own time-out replaces a shorter IdleTimeout. So an operator raises one key
// for a long loading screen, and need not know the other.
func TestSilentClientsAreGivenUp(t *testing.T) {
	w := riptideWorld(t, nil)
	w.settings.IdleTimeout = 3 * time.Second
	p := w.connect(codec.Hello{})
	w.Run(10 * time.Second)
	if p.gone() {
		t.Fatal("heartbeats did not keep the session")
	}
	w.SetPath(p.addr, listenerAddr, simnet.Weather{Loss: 1})
	w.Run(4 * time.Second)
	if p.gone() || w.proxy.relay.table.Len() == 0 {
		t.Error("given up before Riptide's 5 s are over")
	}
	w.await("given up", 3*time.Second, func() bool { return w.proxy.relay.table.Len() == 0 })
}

func TestUpstreamThatNeverAnswersIsGivenUp(t *testing.T) {
	w := riptideWorld(t, nil)
	w.settings.HandshakeTimeout = 2 * time.Second
	w.servers[0].react = nil // the server never answers the question
	p := w.join(codec.Hello{})
	w.await("refused", 4*time.Second, p.gone)
	if end := p.find(codec.Disconnected); end.Reason != codec.NoConnection {
		t.Errorf("told %v, want no-connection", end.Reason)
	}
	w.await("forgotten", 4*time.Second, func() bool { return w.proxy.relay.table.Len() == 0 })
}

func TestProofFirst(t *testing.T) {
	w := riptideWorld(t, func(r *Route) { r.Admit = policy.ProofFirst })
	forger := w.join(codec.Hello{})
	w.SetPath(listenerAddr, forger.addr, simnet.Weather{Loss: 1}) // the answers go to another host
	w.Run(3 * time.Second)
	if len(w.servers[0].peers) != 0 {
		t.Fatal("the upstream was asked before the client had proved its address")
	}
	p := w.connect(codec.Hello{Data: []byte("x")})
	if id := p.find(codec.Connected).Client; id == 101 {
		t.Errorf("client ID %d, want one of the proxy's, not the upstream's", id)
	}
	w.send(&p.peer, codec.Message{Payload: []byte("early"), Mode: codec.Reliable, HasID: true})
	w.await("answered", time.Second, func() bool { return len(p.received()) == 1 })
}
