package upstream

import (
	"net/netip"
	"sync/atomic"
	"time"
)

// Server is one game server of a Pool. The Pool guards all fields except Addr and the atomic ones.
type Server struct {
	Addr       netip.AddrPort
	configured atomic.Bool  // not only discovered
	heard      atomic.Int64 // time when it was last heard, in ns since origin; 0: never

	weight, maxSessions int
	sessions            int
	elsewhere           int  // sessions of the fleet's other nodes
	credit              int  // of Weighted
	gone                bool // not listed any more

	drainedAt time.Time // zero: not drained
	downAt    time.Time // zero: the checks pass, or there are none
	failedAt  time.Time
	doubtedAt time.Time // when a session or a check last found it gone
	restUntil time.Time // after failedAt; zero while it is healthy
	failures  int       // in a row
	excused   int       // failures in a row without a rest, because others heard the server
	cause     string    // of the last failure of a session or a check
	askAt     time.Time // when a held session may next ask whether it is back

	queue   *waitQueue // of the sessions that it has lost; nil: none
	trouble trouble

	streak    int // checks in a row: positive if passed, negative if failed
	checkedAt time.Time
	rtt       time.Duration // of the last passed check
	upAt      time.Time     // when the checks last found it up again
	passed    bool          // it has passed a check at least once
}

// IsConfigured reports whether the configuration lists the server. It is safe for concurrent use.
func (s *Server) IsConfigured() bool { return s.configured.Load() }

// open reports whether the server may get another session.
func (s *Server) open(now time.Time) bool { return s.usable() && !s.isResting(now) }

// usable reports whether the server may get another session if no better one exists. It may be resting.
func (s *Server) usable() bool { return s.hasRoom() && s.downAt.IsZero() && !s.reserved() }

// hasRoom reports whether the operator and the server's bound allow another session.
func (s *Server) hasRoom() bool {
	return s.drainedAt.IsZero() && (s.maxSessions == 0 || s.sessions+s.elsewhere < s.maxSessions)
}

// isResting reports whether the server has recently failed a session.
func (s *Server) isResting(now time.Time) bool { return now.Before(s.restUntil) }

// resetFailures forgets the failures of sessions.
func (s *Server) resetFailures() { s.restUntil, s.failures, s.excused = time.Time{}, 0, 0 }

// Drain stops new sessions at a server, or admits them again. Existing sessions stay. A drain lasts as long as the
// server is listed, also after Update and Discover.
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

// Refused is the cause of a failed check or session when the host reported an unreachable port.
const Refused = "refused"

// Checked notes the result of a health check. It reports whether the server changed from up to down or back. why is
// the cause of a failed check. Silence does not count if the server has never passed a check: it may not know the
// question.
func (p *Pool) Checked(s *Server, now time.Time, passed bool, rtt time.Duration, why string) (changed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.checkedAt = now
	if passed {
		s.Heard(now)
		s.streak, s.rtt, s.passed = max(s.streak, 0)+1, rtt, true
		if s.streak < p.options.Rise {
			return false
		}
		if s.trouble.turned < mostRefusals || !s.downAt.IsZero() {
			p.recover(s) // a server that answers checks may still refuse players
		}
		if s.downAt.IsZero() {
			return false
		}
		s.downAt, s.upAt = time.Time{}, now
		s.resetFailures() // the check is better evidence than the failures
		return true
	}
	if !s.passed && why != Refused {
		return false
	}
	s.streak, s.cause, s.doubtedAt = min(s.streak, 0)-1, why, now
	if !s.downAt.IsZero() || -s.streak < p.options.Fall {
		return false
	}
	s.downAt = now
	p.tell(s, Down, why)
	return true
}

// heardEvery is the precision of the time at which a Server was last heard. More precision would cost more, because
// loops share that field.
const heardEvery = 10 * time.Millisecond

// origin is the zero of Server.heard. It uses the monotonic clock, so that changes of the system's clock do not
// matter.
var origin = time.Now()

// Heard notes that a session or a check has received something from the server. It is safe for concurrent use, and
// cheap enough to call for each datagram.
func (s *Server) Heard(now time.Time) {
	at := int64(now.Sub(origin))
	if last := s.heard.Load(); last == 0 || at-last >= int64(heardEvery) {
		s.heard.Store(at)
	}
}

// heardAfter reports whether the server was heard after t.
func (s *Server) heardAfter(t time.Time) bool {
	last := s.heard.Load()
	return last != 0 && last > int64(t.Sub(origin))
}
