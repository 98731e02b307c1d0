// Package upstream decides which game server gets the next session, and remembers how each of them is. It knows addresses
// and outcomes, no protocols and no sockets; time is an argument.
//
// Start with Pool, the servers of one upstream. The loops of a proxy share the Pools, since "the fewest sessions" and "at
// most so many" are only true of all loops together. A Pool's lock is held for the moment of a session's beginning and
// end, never for a datagram.
package upstream

import (
	"errors"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// ErrUnknown is of a server that the Pool does not have.
var ErrUnknown = errors.New("no such server in the upstream")

// Options of a Pool.
type Options struct {
	Balance Balance
	// RetryAfter is how long a server rests that failed a session. It doubles with each failure in a row, up to
	// mostBackoff times itself.
	RetryAfter time.Duration
	// Rise and Fall are after how many checks in a row a server counts as up, or as down. 0: there are no checks.
	Rise, Fall int
}

// mostBackoff bounds the rests of a server that keeps failing, in RetryAfters. When it is back, players must not wait
// long.
const mostBackoff = 4

// mostExcused is how many sessions in a row a server may fail without a rest while others hear it. More failures are not
// bad luck on the way: a server may answer pings and let no session in.
const mostExcused = 2

// Target is a server as it is configured, or discovered.
type Target struct {
	Addr        netip.AddrPort
	Weight      int // share of the sessions compared with other servers; 0 is 1
	MaxSessions int // at once, over all loops; 0: no bound
}

// At returns targets of equal weight and without bounds.
func At(addrs ...netip.AddrPort) []Target {
	targets := make([]Target, len(addrs))
	for i, addr := range addrs {
		targets[i].Addr = addr
	}
	return targets
}

// Pool is the servers of one upstream. It is safe for concurrent use.
type Pool struct {
	pools      *Pools // whose it is; nil: it is alone
	mu         sync.Mutex
	options    Options
	configured []Target
	discovered []Target
	servers    []*Server                    // as listed; never changed, only replaced
	leaving    []*Server                    // listed no more, but with sessions
	lined      []*Server                    // with a line, listed or not
	turn       int                          // of RoundRobin: index of the next server to try
	inherited  map[netip.AddrPort]time.Time // drained, and not listed yet: since when
}

// New returns a pool of the given servers.
func New(servers []Target, o Options) *Pool {
	p := new(Pool)
	p.Update(servers, o)
	return p
}

// Update replaces the configured servers and the options. A server that stays keeps its sessions and what is known of
// it; one that goes gets no new sessions, and those it has still want their Release. It does nothing if nothing has
// changed.
func (p *Pool) Update(servers []Target, o Options) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.servers != nil && o == p.options && slices.Equal(servers, p.configured) {
		return
	}
	p.options, p.configured = o, slices.Clone(servers)
	p.list()
}

// Discover replaces the servers that were found beside the configured ones, as Update does.
func (p *Pool) Discover(servers []Target) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !slices.Equal(servers, p.discovered) {
		p.discovered = slices.Clone(servers)
		p.list()
	}
}

// list makes servers of the targets. Those that were there, or are still leaving, are the same ones.
func (p *Pool) list() {
	known := slices.Concat(p.servers, p.leaving, p.lined)
	listed := make([]*Server, 0, len(p.configured)+len(p.discovered))
	for _, t := range slices.Concat(p.configured, p.discovered) {
		if find(listed, t.Addr) != nil {
			continue // found as well as configured
		}
		s := find(known, t.Addr)
		if s == nil {
			s = &Server{Addr: t.Addr}
			p.bequeath(s)
		}
		s.weight, s.maxSessions, s.gone = max(t.Weight, 1), t.MaxSessions, false
		if p.options.Fall == 0 {
			s.downAt = time.Time{} // nobody would find it up again
		}
		listed = append(listed, s)
	}
	p.leaving = nil
	for _, s := range known {
		if find(listed, s.Addr) != nil {
			continue
		}
		if s.gone = true; s.sessions > 0 && !slices.Contains(p.leaving, s) {
			p.leaving = append(p.leaving, s)
		}
	}
	p.servers, p.turn = listed, 0
}

func find(servers []*Server, addr netip.AddrPort) *Server {
	for _, s := range servers {
		if s.Addr == addr {
			return s
		}
	}
	return nil
}

// Servers are those that are listed now. The slice is the caller's to read.
func (p *Pool) Servers() []*Server {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.servers
}

// Pick chooses a server for a client's new session and counts the session there until Release. failed is the server that
// this session has just tried in vain, or nil: another server is preferred. If all others rest, Pick takes the one whose
// rest ends first. It returns nil if every server is full, drained, down, or kept for the sessions that it has lost.
func (p *Pool) Pick(now time.Time, client netip.Addr, failed *Server) *Server {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.choose(now, client, []*Server{failed})
	switch {
	case s != nil:
	case failed != nil && !failed.gone && failed.open(now):
		s = failed
	default:
		s = p.leastRest(failed)
	}
	if s != nil {
		s.sessions++
	}
	return s
}

// Take counts a session at the server of an address, however it is balanced or full, until Release. It is nil if the
// Pool does not list it.
func (p *Pool) Take(addr netip.AddrPort) *Server {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := find(p.servers, addr)
	if s != nil {
		s.sessions++
	}
	return s
}

// Release ends a session at a server.
func (p *Pool) Release(s *Server) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.sessions--; s.sessions > 0 {
		return
	}
	if s.gone {
		p.leaving = slices.DeleteFunc(p.leaving, func(o *Server) bool { return o == s })
	}
	if s.line != nil {
		p.call(s) // all are in line
	}
}

// Failed notes that a session got nothing from a server between since and now, and reports whether the server is to
// blame. Then it rests, and others are preferred for a while. It is not to blame if other sessions or checks have heard
// it since, but for mostExcused sessions in a row only. A failure while it rests tells nothing new.
func (p *Pool) Failed(s *Server, now, since time.Time, why string) (blamed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if soon := now.Add(askAgain); s.askAt.After(soon) {
		s.askAt = soon
	}
	if s.heardAfter(since) && s.excused < mostExcused {
		s.excused++
		return false
	}
	if s.rests(now) {
		return true
	}
	rest := min(p.options.RetryAfter<<min(s.failures, 16), mostBackoff*p.options.RetryAfter)
	s.failures++
	s.restsTil, s.failedAt, s.cause = now.Add(rest), now, why
	return true
}

// Answered notes that a server let a session in, and reports whether that changed it from down to up.
func (p *Pool) Answered(s *Server, now time.Time) (changed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.Heard(now)
	s.heal()
	if changed = !s.downAt.IsZero(); changed {
		s.downAt, s.upAt, s.streak = time.Time{}, now, 0
	}
	return changed
}
