package relay

import (
	"net/netip"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest/simnet"
	"tidegate/internal/netio"
	"tidegate/internal/testkit/allocs"
	"tidegate/internal/upstream"
)

// checkedWorld makes a world whose two servers are checked every second.
func checkedWorld(t *testing.T, p codec.Protocol, by CheckBy) *world {
	route := defaultRoute(p)
	route.Upstream.Servers = []upstream.Target{{Addr: serverAddr}, {Addr: secondAddr}}
	route.Upstream.Options.Rise, route.Upstream.Options.Fall = 2, 3
	route.Upstream.Checks = Checks{By: by, Interval: time.Second, Timeout: 500 * time.Millisecond}
	return newWorld(t, 1, simnet.Weather{Latency: 5 * time.Millisecond}, p, route)
}

func (w *world) state(server int) upstream.State {
	return w.proxy.relay.pools.Get("arena").Status(w.Now())[server].State
}

// awaitState waits for a server's state and returns how long that took.
func (w *world) awaitState(server int, want upstream.State, limit time.Duration) time.Duration {
	w.t.Helper()
	begin := w.Now()
	w.await(want.String(), limit, func() bool { return w.state(server) == want })
	return w.Now().Sub(begin)
}

// checkKinds lists the protocols whose servers can be checked, and the kind of check.
var checkKinds = func() (all []checkKind) {
	for _, m := range udpMembers(noRType) {
		k := checkKind{m.Spec().Name + ", join", m.Protocol, CheckJoin}
		if _, pings := m.Protocol.(codec.Pinger); pings {
			k.name, k.by = m.Spec().Name+", ping", CheckPing
		}
		all = append(all, k)
	}
	return all
}()

type checkKind struct {
	name     string
	protocol codec.Protocol
	by       CheckBy
}

// TestChecks asserts that a silent server is down after three checks and gets no clients. It is up again after two
// checks.
func TestChecks(t *testing.T) {
	for _, kind := range checkKinds {
		t.Run(kind.name, func(t *testing.T) {
			w := checkedWorld(t, kind.protocol, kind.by)
			w.Run(10 * time.Second)
			if w.state(0) != upstream.Up || w.state(1) != upstream.Up {
				t.Fatal("a server that answers is not up")
			}
			w.servers[0].down = true
			if took := w.awaitState(0, upstream.Down, 5*time.Second); took < 2*time.Second {
				t.Errorf("down after %v, in fewer than three checks", took)
			}
			w.connect(codec.Hello{})
			w.connect(codec.Hello{})
			if got := w.proxy.relay.pools.Get("arena").Status(w.Now()); got[0].Sessions != 0 || got[1].Sessions != 2 ||
				got[0].Cause != "silent" {
				t.Errorf("with one server down: %+v", got)
			}
			w.servers[0].down = false
			w.awaitState(0, upstream.Up, 10*time.Second)
		})
	}
}

// TestChecksOfTheDeadBackOff asserts that the interval of a dead server's checks grows up to eight times.
func TestChecksOfTheDeadBackOff(t *testing.T) {
	w := checkedWorld(t, raknet6(), CheckPing)
	w.Run(1500 * time.Millisecond)
	w.servers[0].down = true
	asked := 0
	w.SetTap(func(_, to netip.AddrPort, _ []byte) {
		if to == serverAddr {
			asked++
		}
	})
	w.Run(time.Minute)
	if asked < 8 || asked > 13 {
		t.Errorf("a dead server was asked %d times in a minute", asked)
	}
	w.servers[0].down = false
	if took := w.awaitState(0, upstream.Up, time.Minute); took > 11*time.Second {
		t.Errorf("up %v after it came back", took)
	}
}

// TestChecksLeave asserts that checks leave no clients behind on a server, and keep few sockets open.
func TestChecksLeave(t *testing.T) {
	for _, kind := range checkKinds[1:] {
		t.Run(kind.name, func(t *testing.T) {
			w := checkedWorld(t, kind.protocol, kind.by)
			w.Run(20 * time.Second)
			here := 0
			for _, p := range w.servers[0].peers {
				if !p.gone() {
					here++
				}
			}
			if here > 3 { // one check may be under way, and the server may not believe earlier goodbyes yet
				t.Errorf("%d of %d who checked are still there", here, len(w.servers[0].peers))
			}
			open := 0
			for i := range w.proxy.dialed {
				if !w.proxy.sockets[upstreamSocketAddr(i)].closed {
					open++
				}
			}
			if open > 2 {
				t.Errorf("%d sockets are open", open)
			}
		})
	}
}

// TestRefusedChecks asserts that a refusal from the server's host counts without a time-out.
func TestRefusedChecks(t *testing.T) {
	w := checkedWorld(t, raknet6(), CheckPing)
	w.servers[0].down = true
	w.SetTap(func(from, to netip.AddrPort, _ []byte) {
		if to == serverAddr {
			w.After(time.Millisecond, func() { w.proxy.relay.Failed(w.Now(), w.proxy.sockets[from], netio.ErrRefused) })
		}
	})
	w.awaitState(0, upstream.Down, 3*time.Second)
	if got := w.proxy.relay.pools.Get("arena").Status(w.Now())[0].Cause; got != "refused" {
		t.Errorf("down because %s", got)
	}
}

// TestChecksFollowTheList asserts that checks follow the list of servers and the settings.
func TestChecksFollowTheList(t *testing.T) {
	w := checkedWorld(t, raknet6(), CheckPing)
	w.Run(1500 * time.Millisecond)
	w.servers[1].down = true
	w.awaitState(1, upstream.Down, 5*time.Second)
	pool := w.proxy.relay.pools.Get("arena")
	pool.Update([]upstream.Target{{Addr: secondAddr}}, upstream.Options{Rise: 2, Fall: 3})
	w.Run(2 * time.Second)
	if got := len(w.proxy.relay.checkers[0].servers); got != 1 {
		t.Errorf("%d servers are checked", got)
	}
	w.reload(func(s *Settings) {
		route := *s.Listeners[0].Route
		up := *route.Upstream
		up.Checks, up.Options.Fall = Checks{}, 0
		route.Upstream = &up
		s.Listeners[0].Route = &route
	})
	if w.state(1) != upstream.Up || len(w.proxy.relay.checkers) != 0 {
		t.Errorf("without checks the server is %v", w.state(1))
	}
	for i := range w.proxy.dialed {
		if !w.proxy.sockets[upstreamSocketAddr(i)].closed {
			t.Error("a socket of the checks is still open")
		}
	}
}

// TestChecksDoNotAllocate asserts that checks allocate nothing while nothing changes.
func TestChecksDoNotAllocate(t *testing.T) {
	w := checkedWorld(t, raknet6(), CheckPing)
	w.Run(5 * time.Second)
	relay, c := w.proxy.relay, w.proxy.relay.checkers[0]
	pong := w.servers[0].protocol.(codec.Pinger)
	var answer []byte
	_, answer, _ = pong.Accept(w.Now(), listenerAddr, pong.AppendPing(nil, c.token), nil)
	now := w.Now()
	w.proxy.out = make([]simDatagram, 0, 10_000)
	before := allocs.PerRun(100, func() { w.proxy.Send(c.servers[0].socket, serverAddr, answer) })
	if n := allocs.PerRun(100, func() {
		now = now.Add(time.Second)
		c.advance(now, relay)
		for _, s := range c.servers {
			s.heard(now, relay, answer)
		}
	}); n > 2*before {
		t.Errorf("%v allocations a round, of which %v are the test's", n, 2*before)
	}
}
