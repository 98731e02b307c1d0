// Package upstream decides which game server gets the next session. It knows addresses and outcomes, no protocols.
package upstream

import (
	"net/netip"
	"time"
)

// Balance is how a Pool spreads sessions over its servers.
type Balance uint8

// Ways to spread sessions.
const (
	LeastSessions Balance = iota // the server with the fewest, the first listed among equals
	RoundRobin                   // one after the other
)

// Options of a Pool.
type Options struct {
	Balance    Balance
	RetryAfter time.Duration // how long a server that failed is left alone
}

// Pool is the servers of one upstream. It is not safe for concurrent use: each Relay has its own.
type Pool struct {
	options Options
	servers []*Server
	turn    int // of RoundRobin: index of the next server to try
}

// Server is one game server.
type Server struct {
	Addr     netip.AddrPort
	sessions int
	restsTil time.Time // after a failure; zero while it is well
}

// New returns a pool of the given servers.
func New(servers []netip.AddrPort, o Options) *Pool {
	p := new(Pool)
	p.Update(servers, o)
	return p
}

// Update replaces the servers and options. A server that stays keeps its sessions and its rest; one that goes gets no new
// sessions, and those it has still want their Release.
func (p *Pool) Update(servers []netip.AddrPort, o Options) {
	fresh := make([]*Server, len(servers))
	for i, addr := range servers {
		fresh[i] = p.find(addr)
		if fresh[i] == nil {
			fresh[i] = &Server{Addr: addr}
		}
	}
	p.options, p.servers, p.turn = o, fresh, 0
}

func (p *Pool) find(addr netip.AddrPort) *Server {
	for _, s := range p.servers {
		if s.Addr == addr {
			return s
		}
	}
	return nil
}

// Pick chooses a server for a new session and counts the session there until Release. It returns nil when every
// server is resting after a failure.
func (p *Pool) Pick(now time.Time) *Server {
	var best *Server
	n := len(p.servers)
	for i := range n {
		s := p.servers[(p.turn+i)%n]
		if now.Before(s.restsTil) || best != nil && s.sessions >= best.sessions {
			continue
		}
		best = s
		if p.options.Balance == RoundRobin {
			p.turn = (p.turn + i + 1) % n
			break
		}
	}
	if best != nil {
		best.sessions++
	}
	return best
}

// Release ends a session at a server.
func (p *Pool) Release(s *Server) { s.sessions-- }

// Failed notes that a server did not answer: it gets no new sessions for a while.
func (p *Pool) Failed(s *Server, now time.Time) { s.restsTil = now.Add(p.options.RetryAfter) }

// Answered notes that a server let a session in.
func (p *Pool) Answered(s *Server) { s.restsTil = time.Time{} }

// Sessions is the number of sessions at the server.
func (s *Server) Sessions() int { return s.sessions }
