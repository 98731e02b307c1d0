package upstream

import (
	"maps"
	"net/netip"
	"slices"
	"time"
)

// State is a server's condition in its Pool.
type State uint8

// States. Up, Failing and Refusing servers get new sessions. docs/operate/servers.md has the table.
const (
	Up       State = iota
	Resting        // it recently failed a session
	Down           // its checks fail
	Draining       // an operator drains it
	Gone           // not listed any more; its sessions stay
	Failing        // a session found it gone, and it was not heard since
	Refusing       // it answers, and has turned away the last players
	stateCount
)

// StateCount is the number of states.
const StateCount = int(stateCount)

var stateNames = [StateCount]string{"up", "resting", "down", "draining", "gone", "failing", "refusing"}

// String returns the state's name in logs and the API.
func (s State) String() string { return stateNames[s] }

// Status describes one server at a moment.
type Status struct {
	Addr        netip.AddrPort
	Configured  bool // not only discovered
	State       State
	Since       time.Time // when State began; zero if it has never changed
	Cause       string    // of a State that is not Up; NotHeard if nothing is known
	TurnedAway  int       // joins in a row that it has turned away
	Sessions    int
	Elsewhere   int // sessions of the fleet's other nodes
	MaxSessions int // 0: no bound
	Weight      int
	CheckedAt   time.Time     // zero: never
	RTT         time.Duration // of the last passed check
}

// Status returns the status of the listed servers, in their order, and then of the removed ones that still have
// sessions.
func (p *Pool) Status(now time.Time) []Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make([]Status, 0, len(p.servers)+len(p.leaving))
	for _, s := range slices.Concat(p.servers, p.leaving) {
		one := Status{
			Addr: s.Addr, Configured: s.IsConfigured(), Sessions: s.sessions, Elsewhere: s.elsewhere,
			MaxSessions: s.maxSessions, Weight: s.weight, CheckedAt: s.checkedAt, RTT: s.rtt,
		}
		one.State, one.Since = s.state(now)
		one.TurnedAway = s.trouble.turned
		switch one.State {
		case Resting, Down, Failing, Refusing:
			one.Cause = s.cause
		case Up:
			if s.heard.Load() == 0 {
				one.Cause = NotHeard
			}
		}
		all = append(all, one)
	}
	return all
}

// NotHeard is the cause of a server that counts as Up because nothing speaks against it.
const NotHeard = "not heard yet"

func (s *Server) state(now time.Time) (State, time.Time) {
	switch {
	case s.gone:
		return Gone, time.Time{}
	case !s.drainedAt.IsZero():
		return Draining, s.drainedAt
	case !s.downAt.IsZero():
		return Down, s.downAt
	case now.Before(s.restUntil):
		return Resting, s.failedAt
	case s.isFailing():
		return Failing, s.trouble.at
	case s.trouble.turned >= mostRefusals:
		return Refusing, s.trouble.since
	case s.restUntil.After(s.upAt):
		return Up, s.restUntil
	}
	return Up, s.upAt
}

// Drained returns the servers that an operator has drained, including those from InheritDrains that are not listed
// yet.
func (p *Pool) Drained() (addrs []netip.AddrPort) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.servers {
		if !s.drainedAt.IsZero() {
			addrs = append(addrs, s.Addr)
		}
	}
	addrs = slices.AppendSeq(addrs, maps.Keys(p.inherited))
	for addr := range p.fleet {
		if !slices.Contains(addrs, addr) {
			addrs = append(addrs, addr)
		}
	}
	return addrs
}

// setFleetDrain is Pools.SetFleetDrain for one Pool.
func (p *Pool) setFleetDrain(addr netip.AddrPort, since time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if since.IsZero() {
		delete(p.fleet, addr)
		delete(p.inherited, addr)
	} else {
		if p.fleet == nil {
			p.fleet = make(map[netip.AddrPort]time.Time)
		}
		p.fleet[addr] = since
	}
	for _, s := range slices.Concat(p.servers, p.leaving, p.queued) {
		if s.Addr == addr {
			s.drainedAt = since
		}
	}
}

// setFleetSessions is Pools.SetFleetSessions for one Pool.
func (p *Pool) setFleetSessions(counts map[netip.AddrPort]int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.elsewhere = counts
	for _, s := range slices.Concat(p.servers, p.leaving, p.queued) {
		before := s.elsewhere
		s.elsewhere = counts[s.Addr]
		if s.elsewhere < before && s.queue != nil {
			p.wakeNext(s)
		}
	}
}

// InheritDrains drains the servers that were drained in a predecessor's Pool, each as soon as it is listed. Discovery
// may find a server later.
func (p *Pool) InheritDrains(now time.Time, drained []netip.AddrPort) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.inherited = make(map[netip.AddrPort]time.Time, len(drained))
	for _, addr := range drained {
		p.inherited[addr] = now
	}
	for _, s := range p.servers {
		p.applyInheritedDrain(s)
	}
}

// applyInheritedDrain drains a newly listed server if InheritDrains named it.
func (p *Pool) applyInheritedDrain(s *Server) {
	if at, ok := p.inherited[s.Addr]; ok {
		if s.drainedAt.IsZero() {
			s.drainedAt = at
		}
		delete(p.inherited, s.Addr)
	}
}

// trouble is what players have met at a server, whether it is checked or not. The server's Pool guards it.
type trouble struct {
	at     time.Time `cbor:"17,keyasint,omitempty"` // when a session first found the server gone, since it was last heard
	last   time.Time `cbor:"18,keyasint,omitempty"` // when a session last did so
	turned int       `cbor:"19,keyasint,omitempty"` // joins in a row that the server has turned away
	since  time.Time `cbor:"20,keyasint,omitempty"` // of the first of them
	told   State     `cbor:"21,keyasint,omitempty"` // the last state that Pools.Changed was told
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
