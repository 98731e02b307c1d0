package relay

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest/simnet"
	"tidegate/codec/raknet"
	"tidegate/internal/testkit/allocs"
	"tidegate/proxy/stats"
)

// blocking is a server that blocks an address after too many datagrams in a tick, as RakLib and Cloudburst do. It
// checks every possible tick, since the start of the server's ticks is unknown.
type blocking struct {
	most    int
	tick    time.Duration
	sent    map[netip.Addr][]time.Time
	blocked map[netip.Addr]bool
}

// watch makes a server block addresses: their datagrams are lost.
func (w *world) watch(most int, tick time.Duration) *blocking {
	b := &blocking{most, tick, make(map[netip.Addr][]time.Time), make(map[netip.Addr]bool)}
	w.SetTap(func(from, to netip.AddrPort, _ []byte) {
		if to != serverAddr {
			return
		}
		ip := from.Addr()
		times := append(b.sent[ip], w.Now())
		b.sent[ip] = times
		if n := len(times); n > most && w.Now().Sub(times[n-1-most]) < tick {
			b.blocked[ip] = true
			w.servers[0].down = true
		}
	})
	return b
}

// paced makes a world of players on a server that accepts 20 datagrams in 10 ms from an address.
func paced(t testing.TB, clients, servers codec.Protocol, change func(*Upstream)) *world {
	route := defaultRoute(servers)
	route.Upstream.Pace = Pace{Datagrams: 20, Span: 10 * time.Millisecond}
	change(route.Upstream)
	return newWorld(t, 1, simnet.Weather{Latency: 5 * time.Millisecond}, clients, route)
}

// TestPaceKeepsServersFromBlocking lets 24 players send at once so many datagrams that their server would block the
// proxy. All arrive, and no player waits for all datagrams of another.
func TestPaceKeepsServersFromBlocking(t *testing.T) {
	const players, messages = 24, 30
	for _, c := range []struct {
		clients, servers codec.Protocol
		unbounded        bool
	}{
		{riptide22(), raknet6(), false},
		{raknet6(), riptide22(), false},
		{riptide22(), raknet6(), true}, // shows that the pace makes the difference
	} {
		t.Run(fmt.Sprintf("%s to %s, unbounded %v", c.clients.Spec().Name, c.servers.Spec().Name, c.unbounded),
			func(t *testing.T) {
				w := paced(t, c.clients, c.servers, func(u *Upstream) {
					if c.unbounded {
						u.Pace = Pace{}
					}
				})
				var all []*player
				for range players {
					all = append(all, w.connect(codec.Hello{}))
				}
				for _, p := range w.servers[0].peers {
					p.react = nil // no echoes
				}
				server := w.watch(20, 10*time.Millisecond)
				for i := range messages {
					for _, p := range all {
						payload := append([]byte{0x86, 1, 0, byte(i)}, make([]byte, 900)...)
						w.send(&p.peer, codec.Message{Payload: payload, Mode: codec.Reliable, ID: 7,
							HasID: c.clients.Spec().IDs == codec.IDBeside})
					}
				}
				arrived := func() (sum, least int) {
					least = messages
					for _, p := range w.servers[0].peers {
						n := len(p.received())
						sum, least = sum+n, min(least, n)
					}
					return sum, least
				}
				if c.unbounded {
					w.Run(time.Second)
					if len(server.blocked) == 0 {
						t.Error("without a pace the server does not mind: the test proves nothing")
					}
					return
				}
				w.await("half arrived", 5*time.Second, func() bool { n, _ := arrived(); return n >= players*messages/2 })
				if _, least := arrived(); least < messages/10 {
					t.Errorf("when half of all messages have arrived, someone's %d of %d have", least, messages)
				}
				w.await("all arrived", 5*time.Second, func() bool { n, _ := arrived(); return n == players*messages })
				if len(server.blocked) > 0 {
					t.Error("the server has blocked the proxy")
				}
				if w.proxy.relay.counters.Paced == 0 {
					t.Error("nothing had to wait")
				}
				for _, p := range all {
					p.conn.Close(w.Now(), codec.Goodbye{Reason: codec.Closed})
				}
				w.await("ended", 10*time.Second, func() bool { return w.proxy.relay.table.Len() == 0 })
				if len(server.blocked) > 0 || len(w.proxy.relay.paths.blocked) > 0 {
					t.Errorf("at the end: blocked %v, %d jams", server.blocked, len(w.proxy.relay.paths.blocked))
				}
				for _, path := range w.proxy.relay.paths.byKey {
					if path.sessions != 0 {
						t.Errorf("%d sessions are left on a path", path.sessions)
					}
				}
			})
	}
}

// TestSourcesSpreadSessions asserts that each source address has its share of the sessions, and a pace of its own.
func TestSourcesSpreadSessions(t *testing.T) {
	sources := []netip.Addr{
		netip.MustParseAddr("10.0.0.5"), netip.MustParseAddr("2001:db8::5"), netip.MustParseAddr("10.0.0.6"),
	}
	w := paced(t, riptide22(), raknet6(), func(u *Upstream) { u.Sources = sources })
	var more []netip.AddrPort
	for i := range 20 {
		for _, source := range sources {
			more = append(more, netip.AddrPortFrom(source, upstreamSocketAddr(i).Port()))
		}
	}
	w.Add(w.proxy, more...)
	players := []*player{w.connect(codec.Hello{}), w.connect(codec.Hello{}), w.connect(codec.Hello{}),
		w.connect(codec.Hello{})}
	seen := make(map[netip.Addr]int)
	for addr := range w.servers[0].byAddr {
		seen[addr.Addr()]++
	}
	if seen[sources[0]] != 2 || seen[sources[2]] != 2 || len(seen) != 2 {
		t.Fatalf("sessions by source: %v, want two from each address of the server's family", seen)
	}
	players[0].conn.Close(w.Now(), codec.Goodbye{Reason: codec.Closed})
	w.await("left", 5*time.Second, func() bool { return w.proxy.relay.table.Len() == 3 })
	w.connect(codec.Hello{})
	clear(seen)
	for key, path := range w.proxy.relay.paths.byKey {
		seen[key.source] = path.sessions
	}
	if seen[sources[0]] != 2 || seen[sources[2]] != 2 {
		t.Errorf("sessions by source after one has left and one has come: %v", seen)
	}
	w.reload(func(s *Settings) {
		route := *s.Listeners[0].Route
		up := *route.Upstream
		up.Pace.Datagrams = 7
		route.Upstream, s.Listeners[0].Route = &up, &route
	})
	for key, path := range w.proxy.relay.paths.byKey {
		if !path.window.Is(7, up10ms) {
			t.Errorf("the path from %s does not have the new pace", key.source)
		}
	}
}

const up10ms = 10*time.Millisecond + paceSlack

// TestSessionsWithAddressesOfTheirOwnHaveTheirOwnPace asserts that such sessions share no pace, neither at the server
// nor with another loop.
func TestSessionsWithAddressesOfTheirOwnHaveTheirOwnPace(t *testing.T) {
	w := paced(t, riptide22(), raknet6(), func(u *Upstream) {
		u.Transport.Sources = netip.MustParsePrefix("127.64.0.0/10")
	})
	relay, u := w.proxy.relay, w.settings.Listeners[0].Route.Upstream
	relay.paths.shard.of = 3
	one, other := relay.paths.take(w.Now(), u, serverAddr), relay.paths.take(w.Now(), u, serverAddr)
	if one == other || !one.window.Is(60, up10ms) || len(relay.paths.byKey) != 0 {
		t.Errorf("paths %+v and %+v, %d shared", one, other, len(relay.paths.byKey))
	}
	u.Pace = Pace{}
	if p := relay.paths.take(w.Now(), u, serverAddr); p != nil {
		t.Errorf("a path without a bound: %+v", p)
	}
}

// TestPaceOfRelayedDatagrams asserts that datagrams in ModeRelay wait in order. Beyond a bound, the newest are
// dropped and counted.
func TestPaceOfRelayedDatagrams(t *testing.T) {
	r := newPlainRelay(t, Any, func(s *Settings) {
		s.Listeners[0].Route.Upstream.Servers = s.Listeners[0].Route.Upstream.Servers[:1]
		s.Listeners[0].Route.Upstream.Pace = Pace{Datagrams: 20, Span: 10 * time.Millisecond}
	})
	const sent = 20 + maxParked + 5
	for i := range sent {
		r.Receive(r.now, playerAddr(i%3), listenerAddr, []byte{byte(i), byte(i >> 8), 'x'})
	}
	if got := r.relay.counters.Drops[stats.DropPaced]; got != 5 {
		t.Errorf("%d dropped, want 5", got)
	}
	var times []time.Time
	for len(times) < sent-5 {
		r.relay.Advance(r.now)
		r.relay.Flush(r.now)
		for _, d := range r.out {
			if got := int(d.bytes[0]) | int(d.bytes[1])<<8; got != len(times) {
				t.Fatalf("datagram %d in the place of %d", got, len(times))
			}
			times = append(times, r.now)
		}
		r.out = r.out[:0]
		next := r.relay.paths.blockedUntil()
		if next.IsZero() {
			break
		}
		r.now = next
	}
	if len(times) != sent-5 {
		t.Fatalf("%d were passed on, want %d", len(times), sent-5)
	}
	for i := 20; i < len(times); i++ {
		if within := times[i].Sub(times[i-20]); within < 10*time.Millisecond {
			t.Fatalf("21 datagrams within %v", within)
		}
	}
}

// TestSlowTurnIsNoRest asserts that datagrams at the end of a long turn count from that end.
func TestSlowTurnIsNoRest(t *testing.T) {
	r := newPlainRelay(t, Any, func(s *Settings) {
		s.Listeners[0].Route.Upstream.Pace = Pace{Datagrams: 1, Span: 10 * time.Millisecond}
		s.Listeners[0].Route.Upstream.Servers = s.Listeners[0].Route.Upstream.Servers[:1]
	})
	for range 2 {
		r.Receive(r.now, playerAddr(0), listenerAddr, []byte("x"))
	}
	r.relay.Flush(r.now)
	sent := r.now.Add(7 * time.Millisecond)
	if !r.relay.paths.paced() {
		t.Fatal("nothing is bounded")
	}
	if r.relay.paths.sent(sent); r.relay.paths.paced() {
		t.Error("it has not heard when its datagrams left")
	}
	if next := r.relay.NextTimeout(); !next.Equal(sent.Add(up10ms)) {
		t.Errorf("the next may leave %v after the first has, want %v", next.Sub(sent), up10ms)
	}
}

// TestPacedSessionsDoNotSpin asserts that the Relay's next deadline is the turn of a waiting session, and not
// earlier.
func TestPacedSessionsDoNotSpin(t *testing.T) {
	w := paced(t, riptide22(), raknet6(), func(u *Upstream) { u.Pace.Datagrams = 1 })
	p := w.connect(codec.Hello{})
	for range 50 {
		w.send(&p.peer, codec.Message{Payload: make([]byte, 900), Mode: codec.Reliable, ID: 7, HasID: true})
	}
	waited := false
	for range 200 {
		w.Run(time.Millisecond)
		relay := w.proxy.relay
		e := relay.table.peek(w.keyOf(p))
		if e == nil {
			t.Fatal("the session has ended")
		}
		if !e.Value.waits {
			continue
		}
		waited = true
		if at, turn := e.Value.patience(w.Now()), e.Value.path.window.Next(); turn.After(w.Now()) && at.Before(turn) {
			t.Fatalf("wants to be looked at in %v, and has its turn in %v", at.Sub(w.Now()), turn.Sub(w.Now()))
		}
	}
	if !waited {
		t.Error("it never waited")
	}
}

func TestPacedPathAllocatesNothing(t *testing.T) {
	p := newPipe(t, riptide22(), raknet6())
	relay := p.world.proxy.relay
	e := relay.table.peek(p.world.keyOf(p.player))
	way := &path{}
	way.pace(p.now, Pace{Datagrams: 1, Span: 15 * time.Millisecond})
	e.Value.path = way
	way.sessions++
	m := codec.Message{Mode: codec.Reliable, ID: 7, HasID: true, Payload: make([]byte, 200)}
	for range 200 {
		p.round(m)
	}
	if n := allocs.PerRun(200, func() { p.round(m) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if relay.counters.Paced == 0 {
		t.Error("nothing had to wait")
	}
}

func TestLine(t *testing.T) {
	var l line
	entries := make([]Entry, 5)
	for _, i := range []int{0, 1, 2} {
		l.push(&entries[i])
	}
	for _, want := range []*Entry{&entries[0], &entries[1]} {
		if got := l.pop(); got != want {
			t.Fatal("not the first")
		}
	}
	l.push(&entries[3])
	if l.len() != 2 || l.pop() != &entries[2] || l.pop() != &entries[3] || l.pop() != nil || l.len() != 0 {
		t.Fatal("not in order")
	}
}

// TestPathsToServersThatAreGoneAreForgotten lets sessions play at 10,000 servers in turn. The paths to earlier servers
// are forgotten, but not while datagrams of the last 10 ms count.
func TestPathsToServersThatAreGoneAreForgotten(t *testing.T) {
	ps := paths{shard: shard{of: 1}, byKey: make(map[pathKey]*path)}
	u := &Upstream{Name: "arena", Pace: Pace{Datagrams: 20, Span: 10 * time.Millisecond}}
	now := time.Unix(1_900_000_000, 0)
	stays := ps.take(now, u, netip.MustParseAddrPort("192.0.2.1:7777"))
	for i := range 10_000 {
		server := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), 7777)
		p := ps.take(now, u, server)
		ps.count(now, p)
		ps.sent(now)
		p.leave()
		if again := ps.take(now, u, server); again != p {
			t.Fatal("a path was forgotten while its datagrams count")
		}
		p.leave()
		now = now.Add(time.Millisecond)
	}
	if n := len(ps.byKey); n > 64 || ps.take(now, u, stays.server) != stays {
		t.Errorf("%d paths are kept", n)
	}
}

// TestLateServersFindFewDatagrams freezes a server for 3 s while 24 players send. It would find all datagrams of that
// time at once: no more may wait for it than three times its pace, in which it bears them. When it is back, all
// arrive. Forged acknowledgements in its name change nothing.
func TestLateServersFindFewDatagrams(t *testing.T) {
	const players, rounds = 24, 60
	for _, bounded := range []bool{true, false} {
		w := paced(t, raknet6(), raknet6(), func(u *Upstream) {
			if bounded {
				u.Pace.Silent, u.Pace.Busy = 30, raknet.Busy
			}
		})
		var all []*player
		for range players {
			all = append(all, w.connect(codec.Hello{}))
		}
		for _, p := range w.servers[0].peers {
			p.react = nil // no echoes
		}
		server := w.servers[0]
		server.busy, server.frozen = true, true
		for i := range rounds {
			for _, p := range all {
				w.send(&p.peer, codec.Message{Payload: []byte{0x86, byte(i)}, Mode: codec.Reliable})
			}
			for e := range w.proxy.relay.table.All {
				w.proxy.relay.fromUpstream(w.Now(), e, []byte{0xc0, 0, 1, 1, 0xff, 0xff, 0x0f})
			}
			w.Run(50 * time.Millisecond)
		}
		if found := len(server.unread); bounded != (found <= 3*20) {
			t.Errorf("bounded %v: the server finds %d datagrams at once, and bears %d", bounded, found, 3*20)
		}
		server.resume(w.Now())
		w.await("all arrived", 5*time.Second, func() bool {
			sum := 0
			for _, p := range server.peers {
				sum += len(p.received())
			}
			return sum == players*rounds
		})
	}
}

// TestHeldPaths asserts what lets datagrams leave again when a server has been silent for too many.
func TestHeldPaths(t *testing.T) {
	now := time.Unix(1_900_000_000, 0)
	ack, data := []byte{0xc0}, []byte{0x84}
	ps := paths{shard: shard{of: 1}, byKey: make(map[pathKey]*path)}
	u := &Upstream{Pace: Pace{Datagrams: 40, Span: 10 * time.Millisecond, Silent: 60, Busy: raknet.Busy}}
	p := ps.take(now, u, serverAddr)
	conn := &lenient{}
	joins, plays := &link{path: p, terminated: &terminated{}}, &link{path: p, terminated: &terminated{}}
	joins.upstream.Conn, plays.upstream.Conn, plays.upstream.up = conn, conn, true
	fill := func(n int) {
		for range n {
			now = now.Add(time.Millisecond)
			ps.count(now, p)
		}
		now = now.Add(20 * time.Millisecond)
	}
	expect := func(when string, plain, joining bool) {
		t.Helper()
		if p.lets(now, plays) != plain || p.lets(now, joins) != joining {
			t.Errorf("%s: lets %v and a join %v", when, p.lets(now, plays), p.lets(now, joins))
		}
	}
	fill(59)
	expect("before the bound", true, true)
	fill(1)
	expect("silent", false, true)
	fill(20)
	expect("silent in spite of joins", false, false)
	now = now.Add(silenceTime / 40)
	expect("after a while", true, true)
	fill(1)
	expect("after one more", false, false)
	p.hear(now, data, false)
	expect("a message, perhaps in the middle of a late tick", false, false)
	p.hear(now, ack, false)
	expect("an acknowledgement after it", true, true)
	fill(60)
	p.hear(now, data, false)
	now = now.Add(500 * time.Millisecond)
	expect("messages alone", true, true)
	for range 60 {
		fill(1)
		p.hear(now, data, false)
	}
	expect("a server that speaks all the time, and has nothing to acknowledge", true, true)
	now = now.Add(time.Second)
	fill(60)
	p.hear(now, []byte{6}, false)
	expect("a reply to a join", false, false)
	now = now.Add(36 * time.Millisecond)
	expect("later", true, true)
	fill(60)
	p.hear(now, ack, false)
	expect("an acknowledgement", true, true)
	fill(60)
	conn.is = true
	p.refusals(plays)
	expect("a server that blocks no address", true, true)
	fill(60)
	p.pace(now, u.Pace)
	p.refusals(plays)
	p.hear(now, data, false)
	expect("a message after a reload", true, true)
	conn.is, p.bound.Silent = false, 60
	fill(60)
	bound := u.Pace
	bound.Silent = 0
	p.pace(now, bound)
	fill(1)
	p.pace(now, u.Pace)
	expect("a bound that was away for a while", true, true)
}

// lenient is a connection to a server that may be known to block no address.
type lenient struct {
	codec.Conn
	is bool
}

func (c *lenient) Stats() codec.Stats { return codec.Stats{Lenient: c.is} }
