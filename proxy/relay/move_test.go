package relay

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest/simnet"
	"tidegate/codec/rudp"
	"tidegate/internal/policy"
	"tidegate/internal/upstream"
	"tidegate/proxy/stats"
)

// movable makes a saga with two servers that disconnects when a server fails.
func movable(t *testing.T, weather simnet.Weather, p codec.Protocol) *saga {
	return newSaga(t, 3, weather, p, func(r *Route) {
		r.Upstream.Servers = []upstream.Target{{Addr: serverAddr}, {Addr: secondAddr}}
		r.Failover = Failover{NewIDs: true}
	})
}

// entry returns the player's session.
func (s *saga) entry() *Entry { return s.proxy.relay.table.peek(s.keyOf(s.player)) }

// TestMove asserts that each server gets its part of the messages, each once and in order. The old server gets a
// goodbye.
func TestMove(t *testing.T) {
	for _, member := range reliableMembers() {
		t.Run(member.String(), func(t *testing.T) {
			s := movable(t, simnet.Weather{Latency: 30 * time.Millisecond, Loss: 0.05, Jitter: 5 * time.Millisecond},
				member.Protocol)
			s.play(strongest(member), time.Second)
			if err := s.proxy.relay.move(s.Now(), s.entry(), secondAddr); err != nil {
				t.Fatal(err)
			}
			s.play(strongest(member), 2*time.Second)
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
			if status[0].Sessions != 0 || status[1].Sessions != 1 || len(s.proxy.relay.closing.list) != 0 || s.player.gone() {
				t.Errorf("in the end: %+v, %d partings, gone = %v", status, len(s.proxy.relay.closing.list), s.player.gone())
			}
		})
	}
}

// TestMoveToNobody asserts that a move to a silent server costs only time.
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

// TestMoveFromADyingServer asserts that the old server need not agree.
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
	if got := s.proxy.relay.closing.list; len(got) != 0 {
		t.Fatal("left before what was sent could be acknowledged")
	}
	s.play(codec.ReliableOrdered, 3*time.Second)
	s.settled()
	if s.player.gone() || !slices.IsSorted(s.got[1]) || len(s.got[1]) < 190 {
		t.Errorf("gone = %v; %d at the second server", s.player.gone(), len(s.got[1]))
	}
	s.Run(lingerTime)
	if len(s.proxy.relay.closing.list) != 0 || !s.proxy.sockets[upstreamSocketAddr(0)].closed {
		t.Error("the silent server is still told goodbye")
	}
}

func TestWhatCannotBeMoved(t *testing.T) {
	s := movable(t, simnet.Weather{Latency: 5 * time.Millisecond}, raknet6())
	if err := s.proxy.relay.move(s.Now(), s.entry(), listenerAddr); !errors.Is(err, upstream.ErrUnknown) {
		t.Errorf("to a stranger: %v", err)
	}
	if err := s.proxy.relay.move(s.Now(), s.entry(), secondAddr); err != nil {
		t.Fatal(err)
	}
	if err := s.proxy.relay.move(s.Now(), s.entry(), secondAddr); !errors.Is(err, ErrNotMovable) {
		t.Errorf("twice: %v", err)
	}
	asking := s.join(codec.Hello{})
	s.RunUntil(time.Second, func() bool { return s.proxy.relay.table.peek(s.keyOf(asking)) != nil })
	if err := s.proxy.relay.move(s.Now(), s.proxy.relay.table.peek(s.keyOf(asking)), secondAddr); !errors.Is(err,
		ErrNotMovable) {
		t.Errorf("while joining: %v", err)
	}
}

// TestMoveAll moves all sessions off a server, as an operator does before it stops.
func TestMoveAll(t *testing.T) {
	s := movable(t, simnet.Weather{Latency: 5 * time.Millisecond}, raknet6())
	for range 9 {
		s.connect(codec.Hello{})
	}
	pool := s.proxy.relay.pools.Get("arena")
	_ = pool.Drain(s.Now(), serverAddr, true)
	if n := moveAll(s.proxy.relay, s.Now(), pool, serverAddr); n != 5 {
		t.Errorf("%d are moved, want 5", n)
	}
	s.Run(3 * time.Second)
	if got := pool.Status(s.Now()); got[0].Sessions != 0 || got[1].Sessions != 10 {
		t.Errorf("in the end: %+v", got)
	}
}

// TestPartingsAreBounded asserts that closing connections beyond the bound send one goodbye.
func TestPartingsAreBounded(t *testing.T) {
	s := movable(t, simnet.Weather{Latency: 5 * time.Millisecond}, raknet6())
	ps := &s.proxy.relay.closing
	ps.list = make([]*closingConn, maxClosing)
	e := s.entry()
	session := &e.Value
	socket := session.socket.(*simSocket)
	session.upstream.Conn.Close(s.Now(), codec.Goodbye{Reason: codec.Closed})
	ps.add(s.Now(), e, s.proxy.relay)
	if len(ps.list) != maxClosing || session.socket != nil || !socket.closed || len(s.proxy.out) == 0 {
		t.Errorf("%d partings, %d datagrams", len(ps.list), len(s.proxy.out))
	}
	ps.list = nil
}

// answers returns a game server's reaction that admits every client, and answers each message a tick later.
func (s *saga) answers(tick time.Duration) func(time.Time, *peer, *codec.Event) {
	welcome := welcome()
	return func(now time.Time, p *peer, ev *codec.Event) {
		if ev.Kind != codec.Received {
			welcome(now, p, ev)
			return
		}
		answer := ev.Message
		s.After(tick, func() { _ = p.conn.Send(s.Now(), answer) })
	}
}

// TestMoveLosesNoAnswers asserts that the old server's answers to the last messages reach the player. They come
// before all messages of the next server.
func TestMoveLosesNoAnswers(t *testing.T) {
	for _, member := range reliableMembers() {
		for _, loss := range []float64{0, 0.05} {
			t.Run(fmt.Sprintf("%s, loss %.0f%%", member, 100*loss), func(t *testing.T) {
				weather := simnet.Weather{Latency: 15 * time.Millisecond, Jitter: 2 * time.Millisecond, Loss: loss}
				s := movable(t, weather, member.Protocol)
				for i := range s.servers {
					s.servers[i].react = s.answers(50 * time.Millisecond)
					for _, p := range s.servers[i].peers {
						p.react = s.servers[i].react
					}
				}
				s.play(strongest(member), 500*time.Millisecond)
				for _, to := range []netip.AddrPort{secondAddr, serverAddr, secondAddr, serverAddr} {
					if err := s.proxy.relay.move(s.Now(), s.entry(), to); err != nil {
						t.Fatal(err)
					}
					s.play(strongest(member), 2*time.Second)
				}
				s.Run(3 * time.Second)
				var got []int
				for _, m := range s.player.received() {
					got = append(got, int(m.Payload[1])<<8|int(m.Payload[2]))
				}
				if strongest(member) == codec.ReliableOrdered && !slices.IsSorted(got) {
					t.Error("answers overtook each other")
				}
				slices.Sort(got)
				if answered := len(slices.Compact(slices.Clone(got))); answered != s.sent || len(got) != s.sent {
					t.Errorf("%d messages, %d answers to %d of them", s.sent, len(got), answered)
				}
			})
		}
	}
}

// TestMoveFromATalkingServer asserts that a session leaves a server that never stops sending. The player gets all
// messages that the proxy has acknowledged.
func TestMoveFromATalkingServer(t *testing.T) {
	for _, member := range reliableMembers() {
		t.Run(member.String(), func(t *testing.T) {
			s := movable(t, simnet.Weather{Latency: 15 * time.Millisecond}, member.Protocol)
			old := s.servers[0].peers[0]
			said := 0
			for range 500 {
				m := codec.Message{
					Payload: []byte{0x86, byte(said >> 8), byte(said)}, Mode: strongest(member),
					ID: 7, HasID: s.clients.Spec().IDs == codec.IDBeside, Receipt: codec.Receipt(said + 1),
				}
				if !old.gone() && old.conn.Send(s.Now(), m) == nil {
					said++
				}
				if s.Run(10 * time.Millisecond); said == 50 && s.entry().Value.hold == nil {
					if err := s.proxy.relay.move(s.Now(), s.entry(), secondAddr); err != nil {
						t.Fatal(err)
					}
				}
			}
			s.Run(3 * time.Second)
			if !old.gone() || len(s.servers[1].peers) != 1 || said > 450 {
				t.Fatalf("the old server said %d messages; %d came to the next", said, len(s.servers[1].peers))
			}
			got := make(map[int]bool)
			for _, m := range s.player.received() {
				got[int(m.Payload[1])<<8|int(m.Payload[2])] = true
			}
			delivered := 0
			for _, ev := range old.events {
				if ev.Kind == codec.Delivered {
					if delivered++; !got[int(ev.Receipt)-1] {
						t.Errorf("message %d was acknowledged and did not reach the player", ev.Receipt-1)
					}
				}
			}
			if isRakNet(member) && len(got) < delivered || delivered < 50 {
				t.Errorf("%d said, %d acknowledged, %d received", said, delivered, len(got))
			}
		})
	}
}

// TestMoveRUDP covers messages that only Tidegate resends. They reach one of the servers, even if they were in flight
// at the goodbye.
func TestMoveRUDP(t *testing.T) {
	route := defaultRoute(rudp.New(rudp.Options{AppID: 7}))
	route.Upstream.Servers = []upstream.Target{{Addr: serverAddr}, {Addr: secondAddr}}
	route.Bridge.Reliable, route.Bridge.Envelope = policy.ReliableResend, policy.EnvelopeRaw
	s := &saga{world: newWorld(t, 1, simnet.Weather{Latency: 30 * time.Millisecond, Loss: 0.02}, riptide22(), route)}
	for i := range s.servers {
		s.servers[i].react = s.records(i)
	}
	s.player = s.connect(codec.Hello{})
	for i, to := range []netip.AddrPort{secondAddr, serverAddr, secondAddr} {
		old := s.servers[i%2]
		s.play(codec.Reliable, 500*time.Millisecond)
		old.misses = func(netip.AddrPort) bool { return true }
		s.play(codec.Reliable, 100*time.Millisecond)
		if err := s.proxy.relay.move(s.Now(), s.entry(), to); err != nil {
			t.Fatal(err)
		}
		s.entry().Value.hold.departure.limit = s.Now() // there is no time to resend
		s.play(codec.Reliable, time.Second)
		old.misses = nil
	}
	if times := s.settled(); len(times) != s.sent || s.player.gone() {
		t.Errorf("%d of %d messages came; gone = %v", len(times), s.sent, s.player.gone())
	}
}

// TestMoveToAnEmptyServer asserts that players keep their client IDs if the next server has given none yet.
func TestMoveToAnEmptyServer(t *testing.T) {
	o := newOutage(t, simnet.Weather{Latency: 10 * time.Millisecond, Loss: 0.02}, steady22, 0, func(r *Route) {
		r.Failover = Failover{}
		r.Upstream.Servers = []upstream.Target{{Addr: serverAddr}, {Addr: secondAddr}}
	})
	pool := o.proxy.relay.pools.Get("arena")
	_ = pool.Drain(o.Now(), secondAddr, true)
	for i := range 12 {
		p := o.connect(codec.Hello{})
		if i%5 == 1 {
			p.conn.Close(o.Now(), codec.Goodbye{Reason: codec.Closed}) // leaves a gap
			continue
		}
		o.stays(p)
	}
	o.pass(believed)
	_ = pool.Drain(o.Now(), serverAddr, true)
	_ = pool.Drain(o.Now(), secondAddr, false)
	if n := moveAll(o.proxy.relay, o.Now(), pool, serverAddr); n != len(o.players) {
		t.Fatalf("%d are moved, want %d", n, len(o.players))
	}
	o.pass(8 * time.Second)
	if got := pool.Status(o.Now()); o.kept() != len(o.players) || got[1].Sessions != len(o.players) {
		t.Errorf("%d of %d players kept their places; %+v", o.kept(), len(o.players), got)
	}
}

// TestLateWordsOfAnOldServer asserts that late messages reach the player until another server has taken the session,
// and no later. A server that misses the goodbye continues to send.
func TestLateWordsOfAnOldServer(t *testing.T) {
	s := movable(t, simnet.Weather{Latency: 5 * time.Millisecond}, raknet6())
	s.servers[1].down = true
	old := s.servers[0].peers[0]
	said := 0
	talk := func(d time.Duration) {
		for range d / (50 * time.Millisecond) {
			said++
			_ = old.conn.Send(s.Now(), codec.Message{Payload: []byte{0x86, byte(said)}, Mode: codec.Unreliable})
			s.Run(50 * time.Millisecond)
		}
	}
	s.servers[0].misses = func(netip.AddrPort) bool { return true }
	if err := s.proxy.relay.move(s.Now(), s.entry(), secondAddr); err != nil {
		t.Fatal(err)
	}
	_ = s.proxy.relay.pools.Get("arena").Drain(s.Now(), serverAddr, true)
	talk(2 * time.Second)
	if got := len(s.player.received()); got != said || len(s.proxy.relay.closing.list) != 1 ||
		s.drops(stats.DropClosing) != 0 {
		t.Fatalf("%d of %d messages came, %d dropped; %d connections are closing", got, said, s.drops(stats.DropClosing),
			len(s.proxy.relay.closing.list))
	}
	s.servers[1].down = false
	s.await("taken", time.Second, func() bool { return s.entry().Value.hold == nil })
	before := len(s.player.received())
	talk(time.Second)
	if got := len(s.player.received()); got != before || s.drops(stats.DropClosing) == 0 {
		t.Errorf("%d messages came after the next server had taken the session, %d dropped", got-before,
			s.drops(stats.DropClosing))
	}
	s.Run(lingerTime)
	if len(s.proxy.relay.closing.list) != 0 || s.player.gone() {
		t.Errorf("%d connections are closing; gone = %v", len(s.proxy.relay.closing.list), s.player.gone())
	}
}

// TestLateWordsAreBounded asserts that late messages are bounded in bytes.
func TestLateWordsAreBounded(t *testing.T) {
	s := movable(t, simnet.Weather{Latency: 5 * time.Millisecond}, raknet6())
	e := s.entry()
	x := &closingConn{of: e}
	e.Value.life = seeking
	m := codec.Message{Payload: make([]byte, 1000), Mode: codec.Unreliable}
	m.Payload[0] = 0x86
	for range 2 * maxLate / len(m.Payload) {
		x.hand(s.Now(), s.proxy.relay, &m)
	}
	if dropped := int(s.drops(stats.DropClosing)); dropped < maxLate/len(m.Payload) ||
		dropped == 2*maxLate/len(m.Payload) {
		t.Errorf("%d messages were dropped", dropped)
	}
	e.Value.life = joined
}
