package upstream

import (
	"net/netip"
	"sync/atomic"
	"time"
)

// Server is one game server of a Pool. The Pool guards all fields but Addr and heard.
type Server struct {
	Addr  netip.AddrPort
	heard atomic.Int64 // when it was last heard, in ns since origin; 0: never

	weight, maxSessions int
	sessions            int
	turn                int  // of Weighted: how much it is owed
	gone                bool // listed no more

	drainedAt time.Time // zero: not drained
	downAt    time.Time // zero: the checks find it well, or there are none
	failedAt  time.Time
	restsTil  time.Time // after failedAt; zero while it is well
	failures  int       // in a row
	excused   int       // failures in a row that did not make it rest, since others heard it
	cause     string    // of the last failure, of a session or a check
	askAt     time.Time // when a held session may ask next whether it is back

	line *line // of sessions that it has lost; nil: none

	streak    int // checks in a row: positive those passed, negative those failed
	checkedAt time.Time
	rtt       time.Duration // of the last check passed
	upAt      time.Time     // when the checks last found it up again
	passed    bool          // a check, ever
}

// open reports whether the server may have another session.
func (s *Server) open(now time.Time) bool { return s.usable() && !s.rests(now) }

// usable reports whether the server may have another session if it has to, although it rests.
func (s *Server) usable() bool { return s.hasRoom() && s.downAt.IsZero() && !s.reserved() }

// hasRoom reports whether the operator and the server's bound allow another session.
func (s *Server) hasRoom() bool {
	return s.drainedAt.IsZero() && (s.maxSessions == 0 || s.sessions < s.maxSessions)
}

// rests reports whether the server has failed a session a moment ago.
func (s *Server) rests(now time.Time) bool { return now.Before(s.restsTil) }

// heal forgets the failures of sessions.
func (s *Server) heal() { s.restsTil, s.failures, s.excused = time.Time{}, 0, 0 }

// Drain keeps new sessions from a server, or lets them in again; those that it has stay. It outlives Update and
// Discover for as long as the server is listed.
func (p *Pool) Drain(now time.Time, addr netip.AddrPort, drain bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := find(p.servers, addr)
	switch {
	case s == nil:
		return ErrUnknown
	case !drain:
		s.drainedAt = time.Time{}
	case s.drainedAt.IsZero():
		s.drainedAt = now
	}
	return nil
}

// Refused is why a check failed whose server's host said that nobody listens.
const Refused = "refused"

// Checked notes the result of a health check, and reports whether it changed the server from up to down or back. Why
// is of a check that failed. The silence of a server that has never passed a check says nothing: it may not know the
// question.
func (p *Pool) Checked(s *Server, now time.Time, passed bool, rtt time.Duration, why string) (changed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.checkedAt = now
	if passed {
		s.Heard(now)
		s.streak, s.rtt, s.passed = max(s.streak, 0)+1, rtt, true
		if s.downAt.IsZero() || s.streak < p.options.Rise {
			return false
		}
		s.downAt, s.upAt = time.Time{}, now
		s.heal() // the check knows better than a pause
		return true
	}
	if !s.passed && why != Refused {
		return false
	}
	s.streak, s.cause = min(s.streak, 0)-1, why
	if !s.downAt.IsZero() || -s.streak < p.options.Fall {
		return false
	}
	s.downAt = now
	return true
}
