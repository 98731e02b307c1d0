package relay

import (
	"net/netip"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest/simnet"
	"tidegate/internal/netio"
	"tidegate/internal/policy"
	"tidegate/internal/upstream"
	"tidegate/proxy/stats"
)

// refuses makes each datagram to the first server fail with an error for a while, as a system or a host reports it.
func (w *world) refuses(err error, from, to time.Duration) {
	g, begun := w.servers[0], w.Now()
	w.After(from, func() { g.down = true })
	w.After(to, func() { g.down = false })
	w.SetTap(func(at, server netip.AddrPort, _ []byte) {
		s, age := w.proxy.sockets[at], w.Now().Sub(begun)
		if server == g.addr && s != nil && age >= from && age < to {
			w.After(time.Millisecond, func() {
				if !s.closed {
					w.proxy.relay.Failed(w.Now(), s, err)
				}
			})
		}
	})
}

// TestPlayersOutliveAnInterruption takes a server away for a moment, while players send 50 messages a second. Without
// a proxy they play on. So no session may end, and no server may see a player leave.
func TestPlayersOutliveAnInterruption(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		span time.Duration
	}{
		{"no route", netio.ErrUnreachable, 150 * time.Millisecond},
		{"no route for long", netio.ErrUnreachable, 3 * time.Second},
		{"refused", netio.ErrRefused, 100 * time.Millisecond},
		{"refused for most of a second", netio.ErrRefused, 900 * time.Millisecond},
	} {
		for _, member := range udpMembers(noRType) {
			name, mode := member.Protocol.Spec().Name, strongest(member)
			if c.span > 200*time.Millisecond { // these protocols themselves end after as many resends
				if mode = codec.Unreliable; name == "rudp" {
					continue
				}
			}
			t.Run(c.name+" "+name, func(t *testing.T) {
				w := newWorld(t, 1, simnet.Weather{Latency: 5 * time.Millisecond}, member.Protocol,
					defaultRoute(member.Protocol))
				p := w.connect(codec.Hello{})
				w.refuses(c.err, 100*time.Millisecond, 100*time.Millisecond+c.span)
				s := &saga{world: w, player: p}
				s.play(mode, c.span+5*time.Second)
				if w.proxy.relay.counters.Closed > 0 || p.gone() || w.servers[0].peers[0].gone() {
					t.Errorf("the session ended; player %v", p.find(codec.Disconnected))
				}
			})
		}
	}
}

// TestGoneServerIsNoticed asserts that refusals for a second end a session, as does silence after refusals.
func TestGoneServerIsNoticed(t *testing.T) {
	for _, c := range []struct {
		name        string
		span, limit time.Duration
	}{
		{"refuses on", time.Minute, refusedTime + 500*time.Millisecond},
		{"silent after refusals", 300 * time.Millisecond, doubtTime + 500*time.Millisecond},
	} {
		w := riptideWorld(t, nil)
		s := &saga{world: w, player: w.connect(codec.Hello{})}
		w.refuses(netio.ErrRefused, 0, c.span)
		w.After(c.span, func() { w.servers[0].down = true })
		begun := w.Now()
		for !s.player.gone() && w.Now().Sub(begun) < 10*time.Second {
			s.play(codec.Reliable, 20*time.Millisecond)
		}
		if took := w.Now().Sub(begun); took > c.limit || took < refusedTime {
			t.Errorf("%s: told after %v, want at most %v", c.name, took, c.limit)
		}
		// Without a proxy its own library says the same.
		if end := s.player.find(codec.Disconnected); end.Reason != codec.PoorConnection {
			t.Errorf("%s: told %v, want poor-connection", c.name, end.Reason)
		}
	}
}

// TestJoinsOutliveAnInterruption asserts that players join while the only server is away for a second.
func TestJoinsOutliveAnInterruption(t *testing.T) {
	for _, member := range udpMembers(noRType) {
		for _, err := range []error{netio.ErrUnreachable, netio.ErrRefused} {
			w := newWorld(t, 1, simnet.Weather{Latency: 5 * time.Millisecond}, member.Protocol, defaultRoute(member.Protocol))
			w.refuses(err, 0, time.Second)
			w.Run(time.Millisecond)
			for range 10 {
				p := w.join(codec.Hello{})
				w.Run(80 * time.Millisecond)
				defer func() {
					if p.find(codec.Connected) == nil || p.gone() {
						t.Errorf("%s, %v: a player is not in", member.Protocol.Spec().Name, err)
					}
				}()
			}
			w.Run(3 * time.Second)
			if n := w.drops(stats.DropSocket); n > 0 {
				t.Errorf("%d drops for want of a socket", n)
			}
		}
	}
}

// TestLostServersAreInTrouble asserts that the loss of a session, a join without an answer, and a relayed client
// without one put a discovered server in trouble, until it is heard again.
func TestLostServersAreInTrouble(t *testing.T) {
	for _, mode := range []policy.Mode{policy.ModeTerminate, policy.ModeRelay} {
		w := riptideWorld(t, func(r *Route) {
			r.Mode = mode
			if mode == policy.ModeRelay {
				r.Upstream.Protocol = riptide22()
			}
			r.Upstream.Servers = nil
		})
		pool := w.proxy.relay.pools.Get("arena")
		pool.Discover([]upstream.Target{{Addr: serverAddr}})
		p := w.connect(codec.Hello{})
		w.servers[0].down = true
		w.await("told", time.Minute, p.gone)
		if mode == policy.ModeTerminate && !pool.Troubled() {
			t.Error("a lost session is no trouble")
		}
		q := w.join(codec.Hello{})
		w.await("told", time.Minute, q.gone)
		w.Run(w.settings.HandshakeTimeout)
		if !pool.Troubled() {
			t.Errorf("%v: a failed join is no trouble", mode)
		}
		terminates := mode == policy.ModeTerminate
		if s := pool.Status(w.Now())[0]; s.TurnedAway != 1 || terminates && s.State == upstream.Up {
			t.Errorf("%v: after a failed join: %+v", mode, s)
		}
		w.servers[0].down = false
		w.connect(codec.Hello{})
		if pool.Troubled() {
			t.Errorf("%v: a server that answers is in trouble", mode)
		}
		if s := pool.Status(w.Now())[0]; s.TurnedAway != 0 || s.State != upstream.Up {
			t.Errorf("%v: after a join: %+v", mode, s)
		}
	}
}

// TestStoppedServerHasSaidGoodbye: a server that says goodbye and closes its socket has stopped in good order, though
// its host refuses datagrams from then on.
func TestStoppedServerHasSaidGoodbye(t *testing.T) {
	for _, member := range udpMembers(noRType) {
		t.Run(member.Protocol.Spec().Name, func(t *testing.T) {
			w := newWorld(t, 1, simnet.Weather{Latency: 5 * time.Millisecond}, member.Protocol,
				defaultRoute(member.Protocol))
			p := w.connect(codec.Hello{})
			w.Run(time.Second)
			server := w.servers[0].peers[0].conn
			server.Close(w.Now(), codec.Goodbye{Reason: codec.ServerStopped})
			w.refuses(netio.ErrRefused, 20*time.Millisecond, time.Minute)
			w.await("ended", 20*time.Second, p.gone)
			ended := w.tally().Ended[stats.ByUpstream]
			if ended[codec.Closed]+ended[codec.ServerStopped] != 1 {
				t.Errorf("ended for another reason: %v", ended)
			}
		})
	}
}
