//go:build interop

package interop_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"tidegate/internal/testkit/netlab"
)

// step is something that happens in a situation.
type step func(s *stage)

// joinAll has some players join, and waits for them.
func joinAll(count int, limit time.Duration) step {
	return func(s *stage) {
		s.row.kit.join(s, len(s.players), count)
		s.within(limit, func() bool { return s.decided() })
		if s.server != nil {
			s.within(time.Second, func() bool { return s.joined >= s.up() })
		}
	}
}

// decided reports whether each player is in, or was refused.
func (s *stage) decided() bool {
	for _, p := range s.players {
		if !p.up && !p.ended {
			return false
		}
	}
	return true
}

// up has each player send a burst, and down the server.
func up(count, size int, priority string) step {
	return func(s *stage) {
		for i := range s.players {
			s.say(i, order{Count: count, Size: size, Priority: priority})
		}
	}
}

func down(count, size int, priority string) step {
	return func(s *stage) { s.say(toAll, order{Count: count, Size: size, Priority: priority}) }
}

// closes has the players or the server close their connections, behind what waits.
func closes(server bool) step {
	return func(s *stage) {
		began := time.Now()
		peers := []*peer{s.server}
		if !server {
			peers = nil
			for _, p := range s.players {
				peers = append(peers, p.peer)
			}
		}
		for _, p := range peers {
			_ = p.do(order{Do: "close"})
		}
		if s.within(s.row.limit, func() bool { return server && s.up() == 0 || !server && s.left >= len(s.players) }) {
			s.times["closed"] = time.Since(began)
		}
	}
}

// chat has each player and the server send some messages a second until the end.
func chat(rate int) step {
	return func(s *stage) {
		quit, done := make(chan struct{}), make(chan struct{})
		ticker := time.NewTicker(time.Second / time.Duration(rate))
		go func() {
			defer close(done)
			defer ticker.Stop()
			for {
				select {
				case <-ticker.C:
					for i := range s.players {
						s.say(i, order{Count: 1, Size: 20})
					}
					s.say(toAll, order{Count: 1, Size: 20})
				case <-quit:
					return
				}
			}
		}()
		s.hushed = func() {
			s.hushed = func() {}
			close(quit)
			<-done
		}
	}
}

// pass lets time go by.
func pass(d time.Duration) step { return func(s *stage) { s.pass(d) } }

// settle ends the talk, and waits until every message has come, or every player is out.
func settle(s *stage) {
	s.hushed()
	s.within(s.row.limit, func() bool { return s.missing() == 0 || s.up() == 0 })
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.missing() == 0 {
		s.times["done"] = s.last.Sub(s.said)
	}
}

// cut interrupts the disturbed leg, or freezes Tidegate.
func cut(d time.Duration) step {
	return func(s *stage) {
		if s.leg == nil {
			s.signal(s.gate.cmd.Process.Pid, syscall.SIGSTOP)
			s.pass(d)
			s.signal(s.gate.cmd.Process.Pid, syscall.SIGCONT)
			return
		}
		s.leg.setCut(true)
		s.pass(d)
		s.leg.setCut(false)
	}
}

// refuse has the disturbed leg refuse.
func refuse(d time.Duration) step {
	return func(s *stage) {
		s.leg.refuse()
		s.pass(d)
		s.leg.open()
	}
}

// weather changes the climate of the disturbed leg.
func weather(c climate) step { return func(s *stage) { s.leg.setClimate(c) } }

// freeze stops the server's process, or a player's, for a time; 0: for good.
func freeze(server bool, d time.Duration) step {
	return func(s *stage) {
		pid := s.server.pid
		if !server {
			pid = s.players[0].peer.pid
		}
		s.signal(pid, syscall.SIGSTOP)
		if d > 0 {
			s.pass(d)
			s.signal(pid, syscall.SIGCONT)
		}
	}
}

// killServer ends the server without a goodbye.
func killServer(s *stage) { _ = s.server.kill() }

// awaitOut waits until no player is in.
func awaitOut(s *stage) {
	began := time.Now()
	if s.within(s.row.limit, func() bool { return s.up() == 0 }) {
		s.times["told"] = time.Since(began)
	}
}

// awaitLeft waits until the server is told that a player has left, and why.
func awaitLeft(s *stage) {
	began := time.Now()
	if s.within(s.row.limit, func() bool { return s.left > 0 }) {
		s.times["server told"] = time.Since(began)
		s.told[fmt.Sprintf("server %d", s.leftWhy)] = true
	}
}

// killPlayer ends player 0 without a goodbye, and rejoin has it come again, as a new process.
func killPlayer(s *stage) { _ = s.players[0].peer.kill() }

// sendKiller has player 0 send a message that its server does not survive.
func sendKiller(s *stage) { _ = s.players[0].peer.do(order{Do: "killer"}) }

// leave has player 0 say goodbye.
func leave(s *stage) { _ = s.players[0].peer.do(order{Do: "leave"}) }

func rejoin(s *stage) {
	s.mu.Lock()
	s.players[0].comes, s.players[0].began = true, time.Now()
	s.mu.Unlock()
	for end := time.Now().Add(s.row.limit); time.Now().Before(end); {
		s.row.kit.join(s, 0, 1)
		if s.within(time.Until(end), func() bool { return s.players[0].up || s.players[0].ended }) && s.players[0].up {
			return
		}
		s.pass(retrying)
	}
}

// retrying is how long a refused player waits.
const retrying = 100 * time.Millisecond

// again has player 0 leave and come back at once, by the same process.
func again(s *stage) { s.comesAgain(0) }

func (s *stage) comesAgain(i int) {
	p := s.players[i]
	s.mu.Lock()
	p.comes, p.began, p.up = true, time.Now(), false
	s.mu.Unlock()
	for end := time.Now().Add(s.row.limit); time.Now().Before(end); {
		s.mu.Lock()
		p.ended = false
		s.mu.Unlock()
		_ = p.peer.do(order{Do: "again", Player: int(p.number)})
		if s.within(time.Until(end), func() bool { return p.up || p.ended }) && p.up {
			return
		}
		s.pass(retrying)
	}
}

// report asks the server for its figures.
func report(s *stage) {
	_ = s.server.do(order{Do: "report"})
	s.within(time.Second, func() bool { return len(s.figures) > 0 })
}

// reportBoth asks the server and the first player for their figures.
func reportBoth(s *stage) {
	report(s)
	asked := len(s.figures)
	_ = s.players[0].peer.do(order{Do: "report"})
	s.within(time.Second, func() bool { return len(s.figures) > asked })
}

// pause has a player's program, or the server's, do nothing, as while it loads.
func pause(server bool, d time.Duration) step {
	return func(s *stage) {
		p := s.server
		if !server {
			p = s.players[0].peer
		}
		_ = p.do(order{Do: "pause", Pause: int(d.Milliseconds())})
		s.pass(d)
	}
}

// Networks of a lab. The server is in the far one.
const (
	labServer  = "10.78.0.1"
	labNetwork = "10.78.0.0/24"
	labGateway = "10.77.0.2"
)

// routed joins two networks by a cable and a route.
func routed(t *testing.T) *lab {
	l := &lab{near: netlab.New(t, "near"), far: netlab.New(t, "far")}
	netlab.Cable(l.near, "eth0", l.far, "eth0")
	l.near.Address("eth0", "10.77.0.1/24")
	l.far.Address("eth0", labGateway+"/24")
	l.far.Address("lo", labServer+"/32")
	l.near.Route(labNetwork, labGateway)
	return l
}

// oneHost has the server in the players' network, at an address of its own.
func oneHost(t *testing.T) *lab {
	near := netlab.New(t, "near")
	near.Address("lo", labServer+"/32")
	return &lab{near: near, far: near}
}

// unroute takes the route to the server away for a time, and unaddress the server's address.
func unroute(d time.Duration) step {
	return func(s *stage) {
		s.lab.near.Unroute(labNetwork)
		s.pass(d)
		s.lab.near.Route(labNetwork, labGateway)
	}
}

func unaddress(d time.Duration) step {
	return func(s *stage) {
		s.lab.far.Unaddress("lo", labServer+"/32")
		s.pass(d)
		s.lab.far.Address("lo", labServer+"/32")
	}
}

// move gives each player another address.
func move(s *stage) { s.leg.move() }

// while begins a step, and does others meanwhile.
func while(begun step, others ...step) step {
	return func(s *stage) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			begun(s)
		}()
		s.pass(100 * ms)
		for _, other := range others {
			other(s)
		}
		<-done
	}
}

// replace has player 1 leave, and come as another one a moment later. The others are told both.
func replace(s *stage) {
	p := s.players[1]
	s.mu.Lock()
	s.leaving = time.Now()
	s.mu.Unlock()
	_ = p.peer.do(order{Do: "leave", Player: int(p.number)})
	s.pass(200 * ms)
	s.comesAgain(1)
	s.within(s.row.limit, func() bool { return s.times["others told"] > 0 })
}
