// Package upstream chooses the game server of each new session and tracks the health of servers. It knows addresses
// and outcomes, but no protocols and no sockets. Time is an argument.
//
// Start with Pool, the servers of one upstream. The loops of a proxy share the Pools, because the fewest sessions and
// the bound of sessions count over all loops together. A Pool's lock is held for the moment in which a session begins
// or ends, never for a datagram.
package upstream

import (
	"cmp"
	"errors"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"tidegate/internal/policy"
)

// ErrUnknown says that the Pool does not have the server.
var ErrUnknown = errors.New("no such server in the upstream")

// Options of a Pool.
type Options struct {
	Balance policy.Balance
	// RetryAfter is the rest of a server after it failed a session. It doubles with each failure in a row, up to
	// maxBackoff times RetryAfter.
	RetryAfter time.Duration
	// Rise and Fall are the numbers of checks in a row that make a server up or down. 0: there are no checks.
	Rise, Fall int
}

// maxBackoff bounds the rest of a server that keeps failing, in multiples of RetryAfter. The bound is low, so that
// players do not wait long once the server is back.
const maxBackoff = 4

// maxExcused is the number of sessions in a row that a server may fail without a rest while other sessions hear it.
// More failures are not packet loss: a server may answer pings and still admit no session.
const maxExcused = 2

// Target is a configured or discovered server.
type Target struct {
	Addr        netip.AddrPort
	Weight      int // share of the sessions, compared with other servers; 0 means 1
	MaxSessions int // at one time, over all loops and all nodes of the fleet; 0: no bound
}

// Pool holds the servers of one upstream. It is safe for concurrent use.
type Pool struct {
	pools      *Pools // that this Pool belongs to; nil: none
	name       string // there
	mu         sync.Mutex
	options    Options
	configured []Target
	discovered []Target
	servers    []*Server                    // the listed ones; the slice is replaced, never changed
	leaving    []*Server                    // not listed any more, but with sessions
	queued     []*Server                    // with a waitQueue, listed or not
	turn       int                          // of RoundRobin: index of the next server to try
	inherited  map[netip.AddrPort]time.Time // when each was drained; not listed yet
	fleet      map[netip.AddrPort]time.Time // when each was drained in the fleet; listed or not
	elsewhere  map[netip.AddrPort]int       // sessions of the fleet's other nodes; listed or not; never changed
	pace       atomic.Uint32
}

// Pace returns the pace that a server has told last, in packets a second; 0: none has.
func (p *Pool) Pace() uint8 { return uint8(p.pace.Load()) }

// SetPace remembers a server's pace.
func (p *Pool) SetPace(pace uint8) { p.pace.Store(uint32(pace)) }

// Update replaces the configured servers and the options. A server that stays listed keeps its sessions and its
// health. A removed server gets no new sessions, and its sessions still need their Release. Update does nothing if
// nothing has changed.
func (p *Pool) Update(servers []Target, o Options) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.servers != nil && o == p.options && slices.Equal(servers, p.configured) {
		return
	}
	p.options, p.configured = o, slices.Clone(servers)
	p.list()
}

// Discover replaces the discovered servers, which are listed after the configured ones. Otherwise it is like Update.
func (p *Pool) Discover(servers []Target) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !slices.Equal(servers, p.discovered) {
		p.discovered = slices.Clone(servers)
		p.list()
	}
}

// list makes servers from the targets. Servers that were listed before, or still have sessions, are reused. There may
// be thousands of servers, and joins wait meanwhile. So no server is compared with all others.
func (p *Pool) list() {
	old := slices.Concat(p.servers, p.leaving, p.queued)
	known := make(map[netip.AddrPort]*Server, len(old))
	for _, s := range old {
		s.gone, known[s.Addr] = true, s
	}
	listed := make([]*Server, 0, len(p.configured)+len(p.discovered))
	for i, t := range slices.Concat(p.configured, p.discovered) {
		s := known[t.Addr]
		switch {
		case s == nil:
			s = &Server{Addr: t.Addr}
			known[t.Addr] = s
			p.applyInheritedDrain(s)
		case !s.gone:
			continue // both discovered and configured
		}
		if at, ok := p.fleet[t.Addr]; ok {
			s.drainedAt = at
		}
		s.elsewhere = p.elsewhere[t.Addr]
		s.configured.Store(i < len(p.configured))
		s.weight, s.maxSessions, s.gone = max(t.Weight, 1), t.MaxSessions, false
		if p.options.Fall == 0 {
			s.downAt = time.Time{} // without checks, nothing would mark it as up again
		}
		listed = append(listed, s)
	}
	p.leaving = nil
	for _, s := range old {
		if s.gone && s.sessions > 0 && known[s.Addr] == s {
			p.leaving = append(p.leaving, s)
			delete(known, s.Addr) // it may be in old twice
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

// Servers returns the listed servers. The caller may read the slice, but not change it.
func (p *Pool) Servers() []*Server {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.servers
}

// Pick chooses a server for a client's new session and counts the session there until Release. failed is the server
// that this session has just tried without success, or nil. Pick prefers another server. If all others rest, Pick
// chooses the one whose rest ends first. It returns nil if every server is full, drained, down, or reserved for lost
// sessions.
func (p *Pool) Pick(now time.Time, client netip.Addr, failed *Server) *Server {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.choose(now, client, []*Server{failed})
	switch {
	case s != nil:
	case failed != nil && !failed.gone && failed.open(now):
		s = failed
	default:
		s = p.firstRested(failed)
	}
	if s != nil {
		s.sessions++
	}
	return s
}

// Peek returns the server that Pick would choose. It counts no session, and the turn stays.
func (p *Pool) Peek(now time.Time, client netip.Addr, failed *Server) *Server {
	p.mu.Lock()
	defer p.mu.Unlock()
	return cmp.Or(p.next(now, client, []*Server{failed}), p.firstRested(failed))
}

// Take counts a session at the server with this address until Release, regardless of balance and bounds. It returns
// nil if the Pool does not list the server.
func (p *Pool) Take(addr netip.AddrPort) *Server {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := find(p.servers, addr)
	if s != nil {
		s.sessions++
	}
	return s
}

// Rejoin counts the session of another process at its server until Release. A server that is not listed any more keeps
// its sessions and gets no new ones, as after Update.
func (p *Pool) Rejoin(addr netip.AddrPort) *Server {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.known(addr)
	if s == nil {
		s = &Server{Addr: addr, gone: true, weight: 1}
		p.leaving = append(p.leaving, s)
	}
	s.sessions++
	return s
}

// Hold is Rejoin for a join that waits for its player. free releases it.
func (p *Pool) Hold(addr netip.AddrPort) (free func()) {
	s := p.Rejoin(addr)
	return func() { p.Release(s) }
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
	if s.queue != nil {
		p.wakeNext(s) // the last session has moved to the queue
	}
}

// Failed notes that a session got nothing from a server between since and now. It reports whether the server is to
// blame. If so, the server rests, and Pick prefers others for a while. A server that other sessions or checks have
// heard since is not to blame, for at most maxExcused sessions in a row. A failure during a rest changes nothing.
func (p *Pool) Failed(s *Server, now, since time.Time, why string) (blamed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.doubtedAt = now
	if soon := now.Add(askAgain); s.askAt.After(soon) {
		s.askAt = soon
	}
	if s.heardAfter(since) && s.excused < maxExcused {
		s.excused++
		return false
	}
	if s.isResting(now) {
		s.trouble.last = now
		return true
	}
	rest := min(p.options.RetryAfter<<min(s.failures, 16), maxBackoff*p.options.RetryAfter)
	s.failures++
	s.restUntil, s.failedAt = now.Add(rest), now
	p.missed(s, now, why)
	return true
}

// Doubt notes that an established session has lost a server, and why.
func (p *Pool) Doubt(s *Server, now time.Time, why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.missed(s, now, why)
}

// Troubled reports whether a discovered server was found gone and has not been heard since.
func (p *Pool) Troubled() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(p.servers, func(s *Server) bool {
		return !s.IsConfigured() && !s.doubtedAt.IsZero() && !s.heardAfter(s.doubtedAt)
	})
}

// Answered notes that a server admitted a session, and reports whether the server changed from down to up.
func (p *Pool) Answered(s *Server, now time.Time) (changed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.Heard(now)
	s.resetFailures()
	p.recover(s)
	if changed = !s.downAt.IsZero(); changed {
		s.downAt, s.upAt, s.streak = time.Time{}, now, 0
	}
	return changed
}
