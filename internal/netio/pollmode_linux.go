package netio

import (
	"math"
	"time"

	"golang.org/x/sys/unix"
)

// Poll mode. Each datagram at a socket in an epoll set runs the set's wake-up path in the kernel. That takes 0.3 µs
// of the receiving core (Linux 6.18), an eighth of the cost of refusing the datagram. So a flooded listening socket
// leaves the set. Until it is calm, it is read at intervals, as NAPI polls a network card without interrupts.
const (
	pollInterval = 250 * time.Microsecond
	// a flood has at least this many refused datagrams in a turn, and half of all
	floodMinimum = 64
	calmRead     = 16 // a turn with fewer datagrams is calm
	calmTurns    = 16 // number of calm turns that end poll mode
)

// pollMode holds the listening sockets in poll mode.
type pollMode struct {
	sockets []*epollSocket
	busy    []*epollSocket // watched ones with a full batch in this turn
}

// pollState is the load of a socket. Every socket has one, so it is small.
type pollState struct {
	read   uint16 // datagrams in the last turn
	calm   uint8  // calm turns in a row
	active bool
}

// read notes the number of datagrams of a listening socket in this turn.
func (p *pollMode) read(s *epollSocket, datagrams int) {
	s.pollState.read = uint16(min(datagrams, math.MaxUint16))
	if !s.pollState.active && datagrams >= listenBatch {
		p.busy = append(p.busy, s)
	}
}

// waitPolling makes all sockets in poll mode ready. If the last turn has left no input, it first sleeps.
func (p *epollPoller) waitPolling(deadline time.Time) {
	if !p.unread {
		rest := pollInterval
		if !deadline.IsZero() {
			rest = min(rest, time.Until(deadline))
		}
		if rest > 0 {
			nap(rest)
		}
	}
	for _, s := range p.pollMode.sockets {
		p.ready = append(p.ready, readiness{s, unix.EPOLLIN})
	}
	p.poll()
}

// updatePollMode ends a turn. Flooded sockets enter poll mode, and calm ones leave it.
func (p *epollPoller) updatePollMode(h Handler) {
	refused := 0
	if r, ok := h.(DropReporter); ok {
		refused = r.Refused()
	}
	if len(p.pollMode.busy) > 0 {
		p.enterPollMode(refused)
		clear(p.pollMode.busy)
		p.pollMode.busy = p.pollMode.busy[:0]
	}
	left := p.pollMode.sockets[:0]
	for _, s := range p.pollMode.sockets {
		if !s.closed && !p.leavePollMode(s) {
			left = append(left, s)
		}
	}
	clear(p.pollMode.sockets[len(left):])
	p.pollMode.sockets = left
}

// enterPollMode moves the busy sockets into poll mode if most datagrams of this turn were refused.
func (p *epollPoller) enterPollMode(refused int) {
	read := 0
	for _, s := range p.pollMode.busy {
		read += int(s.pollState.read)
	}
	if refused < floodMinimum || refused < read/2 {
		return
	}
	for _, s := range p.pollMode.busy {
		if !s.closed && p.waiter.set(unix.EPOLL_CTL_DEL, s.fd, 0) == nil {
			s.pollState = pollState{read: s.pollState.read, active: true}
			p.pollMode.sockets = append(p.pollMode.sockets, s)
		}
	}
}

// leavePollMode watches a calm socket again, and reports whether it did.
func (p *epollPoller) leavePollMode(s *epollSocket) bool {
	if s.pollState.calm++; s.pollState.read >= calmRead {
		s.pollState.calm = 0
	}
	if s.pollState.calm < calmTurns || p.waiter.set(unix.EPOLL_CTL_ADD, s.fd, unix.EPOLLIN) != nil {
		return false
	}
	s.pollState = pollState{}
	return true
}
