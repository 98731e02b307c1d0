package upstream

import (
	"net/netip"
	"slices"
	"time"
)

// How often held sessions ask a server that does not answer.
const (
	askEvery = 750 * time.Millisecond // while those before wait for an answer
	askAgain = 250 * time.Millisecond // after it has failed
)

// PickForHeld chooses a server for a held session that may have any client ID, and counts the session there until Release. If
// no server is open, it returns a server that rests or is down and is due to be asked whether it is back.
func (p *Pool) PickForHeld(now time.Time, client netip.Addr) *Server {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.choose(now, client, p.doubtful())
	if s == nil {
		s = p.probe(now, nil)
	}
	if s != nil {
		s.sessions++
	}
	return s
}

// doubtful returns the servers that have failed a session and have not been heard since. When their rest is over, that is
// no reason for all held sessions to ask them at once.
func (p *Pool) doubtful() (all []*Server) {
	for _, s := range p.servers {
		if s.failures > 0 && !s.heardAfter(s.failedAt) {
			all = append(all, s)
		}
	}
	return all
}

// probe returns the server that is due to be asked whether it is back, or nil.
func (p *Pool) probe(now time.Time, not []*Server) (best *Server) {
	for _, s := range p.servers {
		switch {
		case !s.hasRoom() || s.reserved() || now.Before(s.askAt) || slices.Contains(not, s):
		case best == nil || s.askAt.Before(best.askAt):
			best = s
		}
	}
	if best != nil {
		best.askAt = now.Add(askEvery)
	}
	return best
}

// AnyReserved reports whether a server is kept for the sessions that it has lost, so that new sessions should wait.
func (p *Pool) AnyReserved() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(p.servers, func(s *Server) bool { return s.reserved() && s.hasRoom() })
}

// IsReserved reports whether a server is kept for the sessions that it has lost.
func (p *Pool) IsReserved(s *Server) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return s.reserved()
}
