package upstream

import (
	"net/netip"
	"slices"
	"time"
)

// State is what a Pool thinks of a server.
type State uint8

// States. Only a server that is Up gets new sessions.
const (
	Up       State = iota
	Resting        // it failed a session a moment ago
	Down           // its checks say so
	Draining       // at the operator's command
	Gone           // listed no more; its sessions stay
	stateCount
)

// StateCount is how many states there are.
const StateCount = int(stateCount)

var stateNames = [StateCount]string{"up", "resting", "down", "draining", "gone"}

// String is the state's name as in logs and the API.
func (s State) String() string { return stateNames[s] }

// Status is how one server is.
type Status struct {
	Addr        netip.AddrPort
	State       State
	Since       time.Time // of State; zero if it has never been another
	Cause       string    // of Resting and Down
	Sessions    int
	MaxSessions int // 0: no bound
	Weight      int
	CheckedAt   time.Time     // zero: never
	RTT         time.Duration // of the last check passed
}

// Status tells how the servers are: those listed, in their order, then those that are leaving.
func (p *Pool) Status(now time.Time) []Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make([]Status, 0, len(p.servers)+len(p.leaving))
	for _, s := range slices.Concat(p.servers, p.leaving) {
		one := Status{
			Addr: s.Addr, Sessions: s.sessions, MaxSessions: s.maxSessions, Weight: s.weight,
			CheckedAt: s.checkedAt, RTT: s.rtt,
		}
		one.State, one.Since = s.state(now)
		if one.State == Resting || one.State == Down {
			one.Cause = s.cause
		}
		all = append(all, one)
	}
	return all
}

func (s *Server) state(now time.Time) (State, time.Time) {
	switch {
	case s.gone:
		return Gone, time.Time{}
	case !s.drainedAt.IsZero():
		return Draining, s.drainedAt
	case !s.downAt.IsZero():
		return Down, s.downAt
	case now.Before(s.restsTil):
		return Resting, s.failedAt
	case s.restsTil.After(s.upAt):
		return Up, s.restsTil
	}
	return Up, s.upAt
}
