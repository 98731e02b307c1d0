package upstream

import (
	"net/netip"
	"time"
)

// trouble is what players have met at a server, whether it is checked or not. The server's Pool guards it.
type trouble struct {
	at     time.Time // when a session first found the server gone, since it was last heard
	last   time.Time // when a session last did so
	turned int       // joins in a row that the server has turned away
	since  time.Time // of the first of them
	told   State     // the last state that Pools.Changed was told
}

// mostRefusals is the number of joins in a row that a server may turn away in its own words. One player may have a
// wrong password; a server that refuses everybody has a fault, or is full.
const mostRefusals = 3

// Change is a new state of a server.
type Change struct {
	Upstream string
	Server   netip.AddrPort
	From, To State
	Cause    string
}

// isFailing reports whether a session found the server gone, and nothing was heard from it since.
func (s *Server) isFailing() bool { return !s.trouble.at.IsZero() && !s.heardAfter(s.trouble.last) }

// missed notes that a session has found the server gone.
func (p *Pool) missed(s *Server, now time.Time, why string) {
	if !s.isFailing() {
		s.trouble.at = now
	}
	s.doubtedAt, s.trouble.last, s.cause = now, now, why
	p.tell(s, Failing, why)
}

// TurnedAway notes that a server gave a new player no place, and why. spoke means that the server itself has said so.
// Otherwise it was silent since the player's session began at since. One silent join may be a scanner's.
func (p *Pool) TurnedAway(s *Server, now, since time.Time, why string, spoke bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := &s.trouble
	if !spoke {
		s.doubtedAt = now
		if s.heardAfter(since) {
			return
		}
	}
	if t.turned++; t.turned == 1 {
		t.since = now
	}
	switch {
	case spoke && t.turned >= mostRefusals:
		s.cause = why
		p.tell(s, Refusing, why)
	case !spoke && (t.turned >= mostRefusals || s.isFailing()):
		if s.isFailing() {
			why = s.cause
		}
		if p.missed(s, now, why); t.since.Before(t.at) {
			t.at = t.since
		}
	}
}

// recover notes that the server has admitted a player, or passes its checks again.
func (p *Pool) recover(s *Server) {
	p.tell(s, Up, "")
	s.trouble = trouble{}
}

// tell reports a change of state to the proxy, once.
func (p *Pool) tell(s *Server, state State, why string) {
	if s.trouble.told == state || state == Failing && s.trouble.told == Down {
		return
	}
	from := s.trouble.told
	s.trouble.told = state
	if p.pools != nil && p.pools.Changed != nil {
		p.pools.Changed(Change{p.name, s.Addr, from, state, why})
	}
}
