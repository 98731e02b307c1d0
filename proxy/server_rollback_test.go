package proxy_test

import (
	"encoding/binary"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/internal/netio"
	"tidegate/internal/testkit/await"
	"tidegate/internal/testkit/freeport"
	"tidegate/proxy/relay"
)

// regular is a player that stays when its listener is removed.
type regular struct {
	*udpPeer
	listener int
	said     uint32
}

// joinAt connects a player to a listener.
func joinAt(t *testing.T, listener int, addr netip.AddrPort) *regular {
	t.Helper()
	p := &regular{udpPeer: dialUDP(t, bedrock(), addr), listener: listener}
	p.flush()
	p.await(codec.Connected)
	return p
}

// echoes sends a message and waits for its echo.
func (p *regular) echoes() {
	p.t.Helper()
	p.said++
	message := binary.LittleEndian.AppendUint32([]byte{0xfe}, p.said)
	if err := p.conn.Send(time.Now(), codec.Message{Payload: message, Mode: codec.ReliableOrdered}); err != nil {
		p.t.Fatalf("player at listener %d: %v", p.listener, err)
	}
	p.flush()
	if got := p.await(codec.Received).Payload; string(got) != string(message) {
		p.t.Fatalf("message %d at listener %d came back as %x", p.said, p.listener, got)
	}
}

// leave ends the connection with a goodbye.
func (p *regular) leave() {
	p.t.Helper()
	p.conn.Close(time.Now(), codec.Goodbye{Reason: codec.Closed})
	p.await(codec.Disconnected)
}

// TestListenersComeBack removes and restores listeners at random while players stay, come and leave. No reload is
// refused and no session ends. New players join wherever there is a listener.
func TestListenersComeBack(t *testing.T) {
	more := append(slices.Clone(backends), struct {
		name    string
		backend netio.Backend
		loops   int
	}{"native, four loops", netio.Auto, 4})
	for _, b := range more {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			server, _ := gorkServer(t)
			r := startWith(t, b.backend, b.loops, bedrock(), bedrock(), server, func(s *relay.Settings) {
				for i := range 2 { // one name, as for a range of ports
					l := s.Listeners[0]
					l.Name, l.Addr = "range", freeport.Loopback(t)
					s.Listeners = append(s.Listeners, l)
					_ = i
				}
			})
			all, addrs := r.settings.Listeners, r.server.Addrs()
			rng := rand.New(rand.NewPCG(7, uint64(b.loops)))
			var players []*regular
			present := []int{0, 1, 2}
			for round := range 25 {
				players = comeAndGo(t, r, rng, players, func(n int) (int, netip.AddrPort) {
					l := present[n%len(present)]
					return l, addrs[l]
				})
				present = present[:0]
				s := *r.settings
				s.Listeners = nil
				for _, i := range rng.Perm(len(all)) {
					if rng.IntN(2) == 0 || len(present) == 0 {
						present, s.Listeners = append(present, i), append(s.Listeners, all[i])
					}
				}
				if err := r.server.Reload(&s); err != nil {
					t.Fatalf("round %d: reload with listeners %v: %v", round, present, err)
				}
				for n, at := range r.server.Addrs() {
					l := present[n]
					used := slices.ContainsFunc(players, func(p *regular) bool { return p.listener == l })
					if at != addrs[l] && (used || all[l].Addr.Port() != 0) {
						t.Fatalf("round %d: listener %d has moved to %v", round, l, at)
					}
					addrs[l] = at
				}
				for _, p := range players {
					p.echoes()
				}
			}
		})
	}
}

// comeAndGo lets some players leave, and others join where the function says.
func comeAndGo(t *testing.T, r *running, rng *rand.Rand, players []*regular,
	where func(n int) (int, netip.AddrPort)) []*regular {
	t.Helper()
	for len(players) > 0 && rng.IntN(3) > 0 {
		i := rng.IntN(len(players))
		players[i].leave()
		players = slices.Delete(players, i, i+1)
	}
	for n := range 6 - min(6, len(players)/2) {
		listener, addr := where(n)
		players = append(players, joinAt(t, listener, addr))
	}
	await.Until(t, "rid of the players that left", func() bool {
		return len(r.server.Snapshot().Sessions) == len(players)
	})
	return players
}

// TestRemovedListenerServesToTheEnd removes a listener, and its players leave one by one. The others play on in every
// loop. The address is free after the last one.
func TestRemovedListenerServesToTheEnd(t *testing.T) {
	t.Parallel()
	server, _ := gorkServer(t)
	r := start(t, netio.Auto, 4, bedrock(), bedrock(), server)
	var players []*regular
	for range 12 {
		players = append(players, joinAt(t, 0, r.addr))
	}
	s := *r.settings
	s.Listeners = slices.Clone(s.Listeners)
	s.Listeners[0].Addr = freeport.Loopback(t)
	if err := r.server.Reload(&s); err != nil {
		t.Fatal(err)
	}
	for left := len(players) - 1; left >= 0; left-- {
		players[left].leave()
		await.Until(t, "rid of the player", func() bool { return len(r.server.Snapshot().Sessions) == left })
		for _, p := range players[:left] {
			p.echoes()
		}
	}
	await.Nil(t, func() error {
		again, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(r.addr))
		if err == nil {
			err = again.Close()
		}
		return err
	})
}

// TestStreamListenersComeBack removes a TCP listener and restores it while a player stays.
func TestStreamListenersComeBack(t *testing.T) {
	eachStreamWorld(t, func(w *streamWorld) {
		client, server := w.connect()
		elsewhere := freeport.Loopback(t)
		for round := range uint16(8) {
			s := *w.settings
			s.Listeners = slices.Clone(s.Listeners)
			if round%2 == 0 {
				s.Listeners[0].Addr = elsewhere
			} else {
				s.Listeners[0].Addr = w.addr
			}
			if err := w.running.server.Reload(&s); err != nil {
				t.Fatalf("round %d: %v", round, err)
			}
			w.burst(client, server, round)
			w.burst(server, client, round)
		}
		client.conn.Close(time.Now(), codec.Goodbye{Reason: codec.Closed})
		client.flush()
		server.await(codec.Disconnected, nil)
		w.untilForgotten()
		w.connect()
	})
}
