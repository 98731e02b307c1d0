package upstream

import (
	"math"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"tidegate/internal/policy"
)

// Server is one game server of a Pool. The Pool guards all fields except Addr and the atomic ones.
type Server struct {
	Addr       netip.AddrPort
	configured atomic.Bool  // not only discovered
	heard      atomic.Int64 // time when it was last heard, in ns since origin; 0: never

	weight, maxSessions int
	sessions            int
	elsewhere           int  // sessions of the fleet's other nodes
	gone                bool // not listed any more

	queue *waitQueue // of the sessions that it has lost; nil: none
	health
	doubtedAt time.Time // when a session or a check last found it gone
}

// health is what another process learns of a server.
type health struct {
	credit int `cbor:"3,keyasint,omitempty"` // of Weighted

	drainedAt time.Time `cbor:"4,keyasint,omitempty"` // zero: not drained
	downAt    time.Time `cbor:"5,keyasint,omitempty"` // zero: the checks pass, or there are none
	failedAt  time.Time `cbor:"6,keyasint,omitempty"`
	restUntil time.Time `cbor:"7,keyasint,omitempty"`  // after failedAt; zero while it is healthy
	failures  int       `cbor:"8,keyasint,omitempty"`  // in a row
	excused   int       `cbor:"9,keyasint,omitempty"`  // in a row without a rest, because others heard the server
	cause     string    `cbor:"10,keyasint,omitempty"` // of the last failure of a session or a check
	askAt     time.Time `cbor:"11,keyasint,omitempty"` // when a held session may next ask whether it is back
	trouble   trouble   `record:"inline"`

	streak    int           `cbor:"12,keyasint,omitempty"` // checks in a row: positive if passed, negative if failed
	checkedAt time.Time     `cbor:"13,keyasint,omitempty"`
	rtt       time.Duration `cbor:"14,keyasint,omitempty"` // of the last passed check
	upAt      time.Time     `cbor:"15,keyasint,omitempty"` // when the checks last found it up again
	passed    bool          `cbor:"16,keyasint,omitempty"` // it has passed a check at least once
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

// choose returns an open server for a client's session, none of the excluded ones. It returns nil if there is none.
func (p *Pool) choose(now time.Time, client netip.Addr, excluded []*Server) *Server {
	best := p.next(now, client, excluded)
	if best == nil {
		return nil
	}
	switch p.options.Balance {
	case policy.RoundRobin:
		p.turn = (slices.Index(p.servers, best) + 1) % len(p.servers)
	case policy.Weighted: // as in nginx: each server earns its weight, and the chosen one pays the sum
		for _, s := range p.servers {
			if s.open(now) && !slices.Contains(excluded, s) {
				s.credit += s.weight
				best.credit -= s.weight
			}
		}
	}
	return best
}

// next is choose without the session: the turn and the credit stay.
func (p *Pool) next(now time.Time, client netip.Addr, excluded []*Server) *Server {
	switch p.options.Balance {
	case policy.RoundRobin:
		return p.roundRobinNext(now, excluded)
	case policy.Weighted:
		return p.best(now, excluded, func(s *Server) float64 { return float64(s.credit + s.weight) })
	case policy.Hash:
		seed := hashOf(client)
		return p.best(now, excluded, func(s *Server) float64 { return s.affinity(seed) })
	}
	return p.best(now, excluded, func(s *Server) float64 { return -float64(s.sessions) / float64(s.weight) })
}

// firstRested returns the resting server whose rest ends first, or nil. A session that has tried one without success
// gets the next server in the list. So its attempts reach all servers.
func (p *Pool) firstRested(tried *Server) (best *Server) {
	first := slices.Index(p.servers, tried) + 1
	for i := range p.servers {
		s := p.servers[(first+i)%len(p.servers)]
		switch {
		case !s.usable():
		case tried != nil:
			return s
		case best == nil || s.restUntil.Before(best.restUntil):
			best = s
		}
	}
	return best
}

// best returns the open server with the highest score; among equals, the first listed.
func (p *Pool) best(now time.Time, excluded []*Server, score func(*Server) float64) (best *Server) {
	high := math.Inf(-1)
	for _, s := range p.servers {
		if !s.open(now) || slices.Contains(excluded, s) {
			continue
		}
		if x := score(s); best == nil || x > high {
			best, high = s, x
		}
	}
	return best
}

// roundRobinNext returns the open server after the last chosen one.
func (p *Pool) roundRobinNext(now time.Time, excluded []*Server) *Server {
	n := len(p.servers)
	for i := range n {
		if s := p.servers[(p.turn+i)%n]; s.open(now) && !slices.Contains(excluded, s) {
			return s
		}
	}
	return nil
}

// affinity returns a client's score of the server in weighted rendezvous hashing. When a server is added or removed,
// only the clients of that server move. All processes compute the same score.
func (s *Server) affinity(client uint64) float64 {
	addr := s.Addr.Addr().As16()
	h := mix(client ^ hash(addr[:]) ^ uint64(s.Addr.Port())<<48)
	u := (float64(h>>11) + 0.5) / (1 << 53) // in the open interval (0, 1)
	return -float64(s.weight) / math.Log(u)
}

func hashOf(a netip.Addr) uint64 {
	b := a.As16()
	return mix(hash(b[:]))
}

// hash is FNV-1a.
func hash(b []byte) uint64 {
	h := uint64(14695981039346656037)
	for _, c := range b {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return h
}

// mix makes every bit depend on all others (the finalizer of SplitMix64).
func mix(h uint64) uint64 {
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}
