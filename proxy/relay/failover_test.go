package relay

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest/simnet"
	"tidegate/codec/rudp"
	"tidegate/internal/netio"
	"tidegate/internal/policy"
	"tidegate/internal/protocols"
	"tidegate/internal/upstream"
	"tidegate/proxy/stats"
)

// saga is a world in which a player sends numbered messages while servers fail and return.
type saga struct {
	*world
	player *player
	sent   int
	got    [2][]int // at each server, in order of arrival
}

// newSaga connects a player by a route that holds sessions for 20 s.
func newSaga(t *testing.T, seed uint64, weather simnet.Weather, p codec.Protocol, change func(*Route)) *saga {
	t.Helper()
	route := defaultRoute(p)
	route.Failover = Failover{Hold: 20 * time.Second}
	route.Upstream.Options.RetryAfter = 100 * time.Millisecond
	if change != nil {
		change(route)
	}
	s := &saga{world: newWorld(t, seed, weather, p, route)}
	for i := range s.servers {
		s.servers[i].react = s.records(i)
	}
	s.player = s.connect(codec.Hello{Data: []byte("me"), Identity: 77})
	s.Run(time.Second) // until the session is established
	return s
}

// records returns a game server's reaction that records the numbers.
func (s *saga) records(server int) func(time.Time, *peer, *codec.Event) {
	welcome := welcome()
	return func(now time.Time, p *peer, ev *codec.Event) {
		if ev.Kind == codec.Received {
			for m := range slices.Chunk(ev.Payload, 4) { // RUDP joins messages
				s.got[server] = append(s.got[server], int(binary.BigEndian.Uint16(m[1:])))
			}
			return
		}
		welcome(now, p, ev)
	}
}

// play sends a numbered message every 20 ms for a while.
func (s *saga) play(mode codec.Mode, d time.Duration) {
	s.t.Helper()
	for range int(d / (20 * time.Millisecond)) {
		s.send(&s.player.peer, codec.Message{
			Payload: []byte{0x86, byte(s.sent >> 8), byte(s.sent), 0}, Mode: mode, ID: 7,
			HasID: s.clients.Spec().IDs == codec.IDBeside,
		})
		s.sent++
		s.Run(20 * time.Millisecond)
	}
}

// die makes a server fall silent and forget all players.
func (s *saga) die(server int) {
	g := s.servers[server]
	g.down, g.peers, g.byAddr, g.replies = true, nil, make(map[netip.AddrPort]*peer), nil
}

func (s *saga) live(server int) { s.servers[server].down = false }

// refuseAll lets the host of a server refuse so often and so long that the proxy believes it.
func (s *saga) refuseAll(server int) {
	for range refusals {
		s.refuse(server)
		s.Run(refusedTime / (refusals - 1))
	}
}

// refuse lets the host of a server report a refusal at each of the proxy's sockets to it.
func (s *saga) refuse(server int) {
	for i := range s.proxy.dialed {
		if socket := s.proxy.sockets[upstreamSocketAddr(i)]; socket.peer == s.servers[server].addr && !socket.closed {
			s.proxy.relay.Failed(s.Now(), socket, netio.ErrRefused)
		}
	}
}

// settled waits until the last message has come. It returns the number of arrivals of each message at any server.
func (s *saga) settled() map[int]int {
	s.t.Helper()
	s.await("the last message received", 30*time.Second, func() bool {
		return slices.Contains(s.got[0], s.sent-1) || slices.Contains(s.got[1], s.sent-1)
	})
	s.Run(2 * time.Second)
	times := make(map[int]int)
	for _, n := range slices.Concat(s.got[0], s.got[1]) {
		times[n]++
	}
	return times
}

// TestHoldOverARestart restarts a server after 4 s. The player stays and loses no message.
func TestHoldOverARestart(t *testing.T) {
	for _, member := range reliableMembers() {
		mode := strongest(member)
		for _, weather := range []simnet.Weather{{Latency: 20 * time.Millisecond},
			{Latency: 20 * time.Millisecond, Jitter: 10 * time.Millisecond, Loss: 0.05}} {
			t.Run(fmt.Sprint(member, " loss ", weather.Loss), func(t *testing.T) {
				s := newSaga(t, 1, weather, member.Protocol, nil)
				s.play(mode, 2*time.Second)
				s.die(0)
				s.servers[0].react = s.records(0)
				s.play(mode, time.Second)
				s.refuseAll(0)
				s.play(mode, 3*time.Second)
				s.live(0)
				s.play(mode, 3*time.Second)
				times := s.settled()
				for n := range s.sent {
					if times[n] < 1 || times[n] > 2 {
						t.Fatalf("message %d came %d times", n, times[n])
					}
				}
				if mode == codec.ReliableOrdered && !slices.IsSorted(s.afterRestart()) {
					t.Error("messages overtook each other")
				}
				if s.player.gone() || s.servers[0].peers[0].find(codec.Asked).Identity != 77 && isRakNet(member) {
					t.Error("the player is gone, or somebody else")
				}
				c := s.proxy.relay.counters
				if c.Held != 1 || c.Regained != 1 {
					t.Errorf("held %d, regained %d", c.Held, c.Regained)
				}
			})
		}
	}
}

// afterRestart returns the numbers that the first server received after its restart. They begin where a number
// repeats or jumps back.
func (s *saga) afterRestart() []int {
	for i := 1; i < len(s.got[0]); i++ {
		if s.got[0][i] <= s.got[0][i-1] {
			return s.got[0][i:]
		}
	}
	return s.got[0]
}

// TestHoldRUDP asserts that a hold also keeps messages that only Tidegate resends.
func TestHoldRUDP(t *testing.T) {
	route := defaultRoute(rudp.New(rudp.Options{AppID: 7}))
	route.Failover, route.Bridge.Reliable = Failover{Hold: 20 * time.Second}, policy.ReliableResend
	route.Bridge.Envelope = policy.EnvelopeRaw
	s := &saga{world: newWorld(t, 1, simnet.Weather{Latency: 20 * time.Millisecond, Loss: 0.02}, riptide22(), route)}
	s.servers[0].react = s.records(0)
	s.player = s.connect(codec.Hello{})
	s.play(codec.Reliable, time.Second)
	s.die(0)
	s.play(codec.Reliable, 4*time.Second) // the proxy notices the loss itself
	s.live(0)
	s.play(codec.Reliable, time.Second)
	times := s.settled()
	for n := range s.sent {
		if times[n] < 1 {
			t.Errorf("message %d did not come", n)
		}
	}
}

// TestHoldFindsAnotherServer asserts that another server takes the session at once.
func TestHoldFindsAnotherServer(t *testing.T) {
	s := newSaga(t, 1, simnet.Weather{Latency: 20 * time.Millisecond}, raknet6(), func(r *Route) {
		r.Upstream.Servers = []upstream.Target{{Addr: serverAddr}, {Addr: secondAddr}}
	})
	s.play(codec.ReliableOrdered, time.Second)
	s.die(0)
	s.play(codec.ReliableOrdered, 100*time.Millisecond)
	s.refuseAll(0)
	s.play(codec.ReliableOrdered, time.Second)
	if times := s.settled(); len(times) != s.sent || !slices.IsSorted(s.got[1]) {
		t.Errorf("%d of %d messages came; the second server got %v", len(times), s.sent, s.got[1])
	}
	if asked := s.servers[1].peers[0].find(codec.Asked); string(asked.Payload) != "me" || asked.Identity != 77 {
		t.Errorf("the second server was asked by %d with %q", asked.Identity, asked.Payload)
	}
}

// TestHoldEnds asserts that the client gets the goodbye of a lost server if no server takes it in time.
func TestHoldEnds(t *testing.T) {
	s := newSaga(t, 1, simnet.Weather{Latency: 5 * time.Millisecond}, riptide22(), nil)
	s.die(0)
	s.refuseAll(0)
	s.Run(17 * time.Second)
	if s.player.gone() {
		t.Fatal("given up early")
	}
	s.await("told", 5*time.Second, s.player.gone)
	if end := s.player.find(codec.Disconnected); end.Reason != codec.ServerStopped {
		t.Errorf("told %v", end.Reason)
	}
	s.Run(10 * time.Second)
	if got := s.proxy.relay.pools.Get("arena").Status(s.Now())[0].Sessions; got != 0 || s.proxy.relay.table.Len() != 0 {
		t.Errorf("%d sessions at the server, %d in the table", got, s.proxy.relay.table.Len())
	}
}

// TestWithoutHold asserts that the client hears at once, with a reason that lets it join again. A C++ RakNet player
// hears nothing, and finds out by its own time-out, as without a proxy.
func TestWithoutHold(t *testing.T) {
	for _, member := range udpMembers(noRType) {
		s := newSaga(t, 1, simnet.Weather{Latency: 5 * time.Millisecond}, member.Protocol,
			func(r *Route) { r.Failover = Failover{} })
		s.die(0)
		s.refuseAll(0)
		if member.Protocol.Spec().Name != protocols.RakNet.Name {
			s.await("told", time.Second, s.player.gone)
			continue
		}
		s.await("told", 15*time.Second, s.player.gone)
		if end := s.player.find(codec.Disconnected); end.Reason != codec.TimedOut {
			t.Errorf("a C++ player was told %v, want timed-out", end.Reason)
		}
	}
}

// TestKickedPlayersAreNotHeld asserts that a server's goodbye is not a loss, unless the route says so.
func TestKickedPlayersAreNotHeld(t *testing.T) {
	for _, row := range []struct {
		name     string
		protocol codec.Protocol
		why      codec.Reason
		goodbyes bool
		held     bool
	}{
		{"kicked", riptide22(), codec.Kicked, false, false},
		{"stopped", riptide22(), codec.ServerStopped, false, true},
		{"goodbye", raknet6(), codec.Closed, false, false},
		{"goodbye that means loss", raknet6(), codec.Closed, true, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := newSaga(t, 1, simnet.Weather{Latency: 5 * time.Millisecond}, row.protocol, func(r *Route) {
				r.Failover.Goodbyes, r.Failover.NewIDs = row.goodbyes, true
			})
			old := s.servers[0].peers[0]
			old.conn.Close(s.Now(), codec.Goodbye{Reason: row.why})
			s.Run(3 * time.Second)
			if s.player.gone() == row.held {
				t.Errorf("gone = %v", s.player.gone())
			}
			if row.held && len(s.servers[0].peers) != 2 {
				t.Errorf("the server has met %d players, want the same one twice", len(s.servers[0].peers))
			}
		})
	}
}

// TestHoldKeepsTheClientID asserts that a held session keeps its client ID. If it cannot and the route allows no new
// ID, the session ends.
func TestHoldKeepsTheClientID(t *testing.T) {
	for _, allowed := range []bool{false, true} {
		s := newSaga(t, 1, simnet.Weather{Latency: 5 * time.Millisecond}, riptide22(), func(r *Route) {
			r.Upstream.Servers = []upstream.Target{{Addr: serverAddr}, {Addr: secondAddr}}
			r.Failover.NewIDs = allowed
		})
		s.servers[0].react = places(20) // the player's ID is 101
		s.servers[1].react = func(now time.Time, p *peer, ev *codec.Event) {
			if ev.Kind == codec.Asked {
				p.conn.Admit(now, 999)
			}
		}
		s.servers[0].peers[0].conn.Close(s.Now(), codec.Goodbye{Reason: codec.ServerStopped})
		s.Run(10 * time.Second)
		if s.player.gone() == allowed {
			t.Errorf("with new IDs allowed = %v: gone = %v", allowed, s.player.gone())
		}
	}
}

// TestHoldIsBounded asserts that a client loses its session, but no message silently, if it sends more than may wait.
func TestHoldIsBounded(t *testing.T) {
	s := newSaga(t, 1, simnet.Weather{Latency: 5 * time.Millisecond}, raknet6(),
		func(r *Route) { r.Bridge.Queue = 65 << 10 }) // each message counts 64 bytes more
	s.die(0)
	s.refuseAll(0)
	big := make([]byte, 8<<10)
	big[0] = 0x86
	for range 8 {
		s.send(&s.player.peer, codec.Message{Payload: big, Mode: codec.ReliableOrdered})
		s.send(&s.player.peer, codec.Message{Payload: big[:100], Mode: codec.Unreliable})
		s.Run(200 * time.Millisecond)
	}
	if s.player.gone() || s.drops(stats.DropHeld) != 8 {
		t.Fatalf("gone = %v; %d unreliable messages dropped, want 8", s.player.gone(), s.drops(stats.DropHeld))
	}
	s.send(&s.player.peer, codec.Message{Payload: big, Mode: codec.ReliableOrdered})
	s.await("told", time.Second, s.player.gone)
	if s.drops(stats.DropQueueFull) != 1 {
		t.Errorf("%d messages dropped for want of room", s.drops(stats.DropQueueFull))
	}
}

// TestHoldBelievesARefusal asserts that the proxy does not ask a server again after a refusal.
func TestHoldBelievesARefusal(t *testing.T) {
	s := newSaga(t, 1, simnet.Weather{Latency: 5 * time.Millisecond}, riptide22(), nil)
	s.servers[0].react = func(now time.Time, p *peer, ev *codec.Event) {
		if ev.Kind == codec.Asked {
			p.conn.Close(now, codec.Goodbye{Reason: codec.RejectedCustom, Data: []byte("too late")})
		}
	}
	s.servers[0].peers[0].conn.Close(s.Now(), codec.Goodbye{Reason: codec.ServerStopped})
	s.await("told", 5*time.Second, s.player.gone)
	if end := s.player.find(codec.Disconnected); end.Reason != codec.Kicked || string(end.Payload) != "too late" {
		t.Errorf("told %v %q", end.Reason, end.Payload)
	}
}

// TestHoldScattersTheOthers asserts that a Riptide player learns that the other players left with the server.
func TestHoldScattersTheOthers(t *testing.T) {
	s := newSaga(t, 1, simnet.Weather{Latency: 5 * time.Millisecond}, riptide22(),
		func(r *Route) { r.Failover.NewIDs = true })
	old := s.servers[0].peers[0]
	for _, id := range []uint16{5, 6, 7} {
		_ = old.conn.Announce(s.Now(), codec.Joined, id)
	}
	_ = old.conn.Announce(s.Now(), codec.Left, 6)
	s.Run(time.Second)
	old.conn.Close(s.Now(), codec.Goodbye{Reason: codec.ServerStopped})
	s.Run(2 * time.Second)
	var left []uint16
	for _, ev := range s.player.events {
		if ev.Kind == codec.Left {
			left = append(left, ev.Client)
		}
	}
	if want := []uint16{6, 5, 7}; !slices.Equal(left, want) || s.player.gone() {
		t.Errorf("left: %v, want %v; gone = %v", left, want, s.player.gone())
	}
}
