package upstream

import (
	"net/netip"
	"slices"
	"time"
)

// Intervals at which held sessions ask a server that does not answer.
const (
	askEvery = 750 * time.Millisecond // while earlier requests wait for an answer
	askAgain = 250 * time.Millisecond // after the server has failed
)

// PickForHeld chooses a server for a held session that may get any client ID. It counts the session there until
// Release. If no server is open, it returns a resting or down server that is due for another attempt.
func (p *Pool) PickForHeld(now time.Time, client netip.Addr) *Server {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.choose(now, client, p.unproven())
	if s == nil {
		s = p.probe(now, nil)
	}
	if s != nil {
		s.sessions++
	}
	return s
}

// unproven returns the servers that failed a session and have not been heard since. Held sessions must not all ask
// such a server at once when its rest ends.
func (p *Pool) unproven() (all []*Server) {
	for _, s := range p.servers {
		if s.failures > 0 && !s.heardAfter(s.failedAt) {
			all = append(all, s)
		}
	}
	return all
}

// probe returns the server that is due for another attempt, or nil.
func (p *Pool) probe(now time.Time, excluded []*Server) (best *Server) {
	for _, s := range p.servers {
		switch {
		case !s.hasRoom() || s.reserved() || now.Before(s.askAt) || slices.Contains(excluded, s):
		case best == nil || s.askAt.Before(best.askAt):
			best = s
		}
	}
	if best != nil {
		best.askAt = now.Add(askEvery)
	}
	return best
}

// AnyReserved reports whether some server is reserved for its lost sessions, so that new sessions should wait.
func (p *Pool) AnyReserved() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(p.servers, func(s *Server) bool { return s.reserved() && s.hasRoom() })
}

// IsReserved reports whether a server is reserved for its lost sessions.
func (p *Pool) IsReserved(s *Server) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return s.reserved()
}
