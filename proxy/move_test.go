package proxy

import (
	"errors"
	"net/netip"
	"slices"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/internal/testkit/simnet"
	"tidegate/internal/upstream"
)

// movable is a saga with two servers and no policy but to disconnect.
func movable(t *testing.T, weather simnet.Weather, p codec.Protocol) *saga {
	return newSaga(t, 3, weather, p, func(r *Route) {
		r.Upstream.Servers = upstream.At(serverAddr, secondAddr)
		r.Failover = Failover{NewIDs: true}
	})
}

// entry is the player's session.
func (s *saga) entry() *entry { return s.proxy.relay.table.Get(s.keyOf(s.player)) }

// TestMove: each server has its part of the messages, all of them once and in order, and the old one hears goodbye.
func TestMove(t *testing.T) {
	for _, member := range reliableFamily[:3] {
		t.Run(member.protocol.Name(), func(t *testing.T) {
			s := movable(t, simnet.Weather{Latency: 30 * time.Millisecond, Loss: 0.05, Jitter: 5 * time.Millisecond}, member.protocol)
			s.play(member.mode, time.Second)
			if err := s.proxy.relay.move(s.Now(), s.entry(), secondAddr); err != nil {
				t.Fatal(err)
			}
			s.play(member.mode, 2*time.Second)
			times := s.settled()
			for n := range s.sent {
				if times[n] != 1 {
					t.Fatalf("message %d came %d times", n, times[n])
				}
			}
			if len(s.got[0]) < 40 || len(s.got[1]) < 50 || slices.Max(s.got[0]) > slices.Min(s.got[1]) {
				t.Errorf("the servers got %d and %d", len(s.got[0]), len(s.got[1]))
			}
			s.await("told goodbye", 5*time.Second, s.servers[0].peers[0].gone)
			if end := s.servers[0].peers[0].find(codec.Disconnected); end.Reason != codec.Closed {
				t.Errorf("the old server was told %v", end.Reason)
			}
			s.Run(5 * time.Second)
			status := s.proxy.relay.pools.Get("arena").Status(s.Now())
			if status[0].Sessions != 0 || status[1].Sessions != 1 || len(s.proxy.relay.partings.list) != 0 || s.player.gone() {
				t.Errorf("in the end: %+v, %d partings, gone = %v", status, len(s.proxy.relay.partings.list), s.player.gone())
			}
		})
	}
}

// TestMoveToNobody: a server that does not answer is lost time only.
func TestMoveToNobody(t *testing.T) {
	s := movable(t, simnet.Weather{Latency: 5 * time.Millisecond}, riptide22())
	s.servers[1].down = true
	if err := s.proxy.relay.move(s.Now(), s.entry(), secondAddr); err != nil {
		t.Fatal(err)
	}
	s.play(codec.Reliable, 9*time.Second)
	if times := s.settled(); len(times) != s.sent || s.player.gone() {
		t.Errorf("%d of %d messages came; gone = %v", len(times), s.sent, s.player.gone())
	}
}

// TestMoveFromADyingServer: it need not agree.
func TestMoveFromADyingServer(t *testing.T) {
	s := movable(t, simnet.Weather{Latency: 5 * time.Millisecond}, raknet6())
	s.play(codec.ReliableOrdered, 100*time.Millisecond)
	s.die(0)
	s.play(codec.ReliableOrdered, 100*time.Millisecond)
	if err := s.proxy.relay.move(s.Now(), s.entry(), netip.AddrPort{}); err != nil {
		t.Fatal(err)
	}
	_ = s.proxy.relay.pools.Get("arena").Drain(s.Now(), serverAddr, true)
	s.play(codec.ReliableOrdered, time.Second)
	if got := s.proxy.relay.partings.list; len(got) != 0 {
		t.Fatal("left before what was sent could be acknowledged")
	}
	s.play(codec.ReliableOrdered, 3*time.Second)
	s.settled()
	if s.player.gone() || !slices.IsSorted(s.got[1]) || len(s.got[1]) < 190 {
		t.Errorf("gone = %v; %d at the second server", s.player.gone(), len(s.got[1]))
	}
	s.Run(lingerTime)
	if len(s.proxy.relay.partings.list) != 0 || !s.proxy.sockets[upstreamSocketAddr(0)].closed {
		t.Error("the silent server is still told goodbye")
	}
}

func TestWhatCannotBeMoved(t *testing.T) {
	s := movable(t, simnet.Weather{Latency: 5 * time.Millisecond}, raknet6())
	if err := s.proxy.relay.move(s.Now(), s.entry(), doorAddr); !errors.Is(err, upstream.ErrUnknown) {
		t.Errorf("to a stranger: %v", err)
	}
	if err := s.proxy.relay.move(s.Now(), s.entry(), secondAddr); err != nil {
		t.Fatal(err)
	}
	if err := s.proxy.relay.move(s.Now(), s.entry(), secondAddr); !errors.Is(err, ErrNotMovable) {
		t.Errorf("twice: %v", err)
	}
	asking := s.join(codec.Hello{})
	s.RunUntil(time.Second, func() bool { return s.proxy.relay.table.Get(s.keyOf(asking)) != nil })
	if err := s.proxy.relay.move(s.Now(), s.proxy.relay.table.Get(s.keyOf(asking)), secondAddr); !errors.Is(err, ErrNotMovable) {
		t.Errorf("while joining: %v", err)
	}
}

// TestMoveAll empties a server, as before it is stopped.
func TestMoveAll(t *testing.T) {
	s := movable(t, simnet.Weather{Latency: 5 * time.Millisecond}, raknet6())
	for range 9 {
		s.connect(codec.Hello{})
	}
	pool := s.proxy.relay.pools.Get("arena")
	_ = pool.Drain(s.Now(), serverAddr, true)
	if n := s.proxy.relay.moveAll(s.Now(), pool, serverAddr); n != 5 {
		t.Errorf("%d are moved, want 5", n)
	}
	s.Run(3 * time.Second)
	if got := pool.Status(s.Now()); got[0].Sessions != 0 || got[1].Sessions != 10 {
		t.Errorf("in the end: %+v", got)
	}
}

// TestPartingsAreBounded: beyond the bound a goodbye is said once.
func TestPartingsAreBounded(t *testing.T) {
	s := movable(t, simnet.Weather{Latency: 5 * time.Millisecond}, raknet6())
	ps := &s.proxy.relay.partings
	ps.list = make([]*parting, maxPartings)
	e := s.entry()
	p := &e.Value
	p.upstream.conn.Close(s.Now(), codec.Goodbye{Reason: codec.Closed})
	ps.add(s.Now(), e, s.proxy.relay)
	if len(ps.list) != maxPartings || !p.socket.(*simSocket).closed || len(s.proxy.out) == 0 {
		t.Errorf("%d partings, %d datagrams", len(ps.list), len(s.proxy.out))
	}
	ps.list = nil
}
