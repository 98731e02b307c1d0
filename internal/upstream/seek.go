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

// Seek chooses a server for a held session that needs no client ID, and counts the session there until Release. Where no
// server is open it returns one that rests or is down, if that is due to be asked again: it may be back.
func (p *Pool) Seek(now time.Time, client netip.Addr) *Server {
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

// doubtful are the servers that have failed a session and have not been heard since. Their rest may be over: that is no
// reason for all held sessions to ask them at once.
func (p *Pool) doubtful() (all []*Server) {
	for _, s := range p.servers {
		if s.failures > 0 && !s.heardAfter(s.failedAt) {
			all = append(all, s)
		}
	}
	return all
}

// probe is the server that is to be asked next whether it is back, or nil.
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

// Reserved reports whether there is a server whose lost sessions come first: a new session had better wait for them.
func (p *Pool) Reserved() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(p.servers, func(s *Server) bool { return s.reserved() && s.hasRoom() })
}

// IsReserved reports whether a server's lost sessions come first.
func (p *Pool) IsReserved(s *Server) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return s.reserved()
}
