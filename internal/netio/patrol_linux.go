package netio

import (
	"math"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// For each datagram that comes to a socket of an epoll set, the kernel calls the set, and the set whoever waits for it: 0.3 µs
// of the core that receives (Linux 6.18), an eighth of all that it takes to refuse one. So a listening socket that is flooded
// leaves the set and is read every so often until it is calm, as a network driver does without its card's interrupts.
const (
	patrolEvery = 250 * time.Microsecond
	floodedTurn = 64 // datagrams that are refused in a turn, and half of what came, make a flood
	calmRead    = 16 // fewer in a turn are none
	calmTurns   = 16 // and so many such turns its end
)

// patrol is the sockets that are read without being asked.
type patrol struct {
	sockets []*epollSocket
	full    []*epollSocket // of those that are watched, which had much in this turn
}

// round is how a socket is faring under patrol. All sockets have one, so it is small.
type round struct {
	read uint16 // datagrams of the last turn
	calm uint8  // turns with few of them
	on   bool
}

// read notes how many datagrams a listening socket had in this turn.
func (p *patrol) read(s *epollSocket, datagrams int) {
	s.round.read = uint16(min(datagrams, math.MaxUint16))
	if !s.round.on && datagrams >= listenBatch {
		p.full = append(p.full, s)
	}
}

// walk has everything read that is under patrol, after a rest where nothing was left by the turn before.
func (p *epollPoller) walk(deadline time.Time) {
	if !p.unread {
		rest := patrolEvery
		if !deadline.IsZero() {
			rest = min(rest, time.Until(deadline))
		}
		if rest > 0 {
			nap(rest)
		}
	}
	for _, s := range p.patrol.sockets {
		p.ready = append(p.ready, readiness{s, unix.EPOLLIN})
	}
	p.poll()
}

// changeGuard ends a turn: what was flooded in it goes under patrol, and what is calm again is watched.
func (p *epollPoller) changeGuard(h Handler) {
	refused := 0
	if r, ok := h.(DropReporter); ok {
		refused = r.Refused()
	}
	if len(p.patrol.full) > 0 {
		p.enlist(refused)
		clear(p.patrol.full)
		p.patrol.full = p.patrol.full[:0]
	}
	left := p.patrol.sockets[:0]
	for _, s := range p.patrol.sockets {
		if !s.closed && !p.relieved(s) {
			left = append(left, s)
		}
	}
	clear(p.patrol.sockets[len(left):])
	p.patrol.sockets = left
}

// enlist puts under patrol what had much in this turn, if most of it was refused.
func (p *epollPoller) enlist(refused int) {
	read := 0
	for _, s := range p.patrol.full {
		read += int(s.round.read)
	}
	if refused < floodedTurn || refused < read/2 {
		return
	}
	for _, s := range p.patrol.full {
		if !s.closed && p.waiter.set(unix.EPOLL_CTL_DEL, s.fd, 0) == nil {
			s.round = round{read: s.round.read, on: true}
			p.patrol.sockets = append(p.patrol.sockets, s)
		}
	}
}

// dismiss ends the patrol of a socket, which is not watched then either. It reports whether there was one.
func (p *patrol) dismiss(s *epollSocket) bool {
	i := slices.Index(p.sockets, s)
	if i < 0 {
		return false
	}
	p.sockets = slices.Delete(p.sockets, i, i+1)
	return true
}

// relieved reports whether a socket is calm and watched again.
func (p *epollPoller) relieved(s *epollSocket) bool {
	if s.round.calm++; s.round.read >= calmRead {
		s.round.calm = 0
	}
	if s.round.calm < calmTurns || p.waiter.set(unix.EPOLL_CTL_ADD, s.fd, unix.EPOLLIN) != nil {
		return false
	}
	s.round = round{}
	return true
}
