package upstream

import (
	"slices"
	"time"
)

const (
	// confirm is how long no session may hear a server that one has lost before it counts as lost to all: a living
	// Riptide server answers each of them every second.
	confirm = 1100 * time.Millisecond
	// musterTime is how long Relays have to hold the sessions that have not noticed.
	musterTime = 50 * time.Millisecond
	// settleTime is how long a line goes on before news of its server close it again.
	settleTime = time.Second
)

// Queue adds a session to the line of its server, in which it waits for its turn once it is Ready.
func (p *Pool) Queue(t *Ticket, home *Server) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if home.line == nil {
		home.line = new(line)
		p.lined = append(p.lined, home)
		if len(p.lined) == 1 {
			p.pools.enlist(p)
		}
	}
	t.home = home
	home.line.add(t)
}

// Ready notes that a session has left its server, and waits for its turn.
func (p *Pool) Ready(t *Ticket) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t.ready = true
}

// Leave takes a session out of its line: it has a server, or is over.
func (p *Pool) Leave(t *Ticket) {
	p.mu.Lock()
	defer p.mu.Unlock()
	home := t.home
	if home == nil {
		return
	}
	home.line.remove(t)
	t.home = nil
	if len(home.line.tickets) > 0 {
		p.call(home)
		return
	}
	home.line = nil
	p.lined = slices.DeleteFunc(p.lined, func(s *Server) bool { return s == home })
	if len(p.lined) == 0 {
		p.pools.discharge(p)
	}
	p.pools.stir(AllShards) // new sessions may have waited for this
}

// Suspect notes that a session has lost its server, and has heard nothing of it since a time. Unless others hear it, its
// other sessions are held soon as well, so that all are in line before the first asks: a session with nothing to say may
// notice seconds later.
func (p *Pool) Suspect(home *Server, now, since time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := home.line
	switch {
	case l == nil:
		return
	case l.since.IsZero() && now.Before(l.verdict.Add(settleTime)):
		return // others have just heard it
	case !l.since.IsZero() && (now.Before(l.verdict.Add(settleTime)) || !home.heardAfter(l.since)):
		return // nothing new
	}
	l.since, l.verdict = since, since.Add(confirm)
	if l.verdict.Before(now) {
		l.verdict = now
	}
	l.opens, l.open, l.mustered = l.verdict.Add(musterTime), false, nil
	l.offers = nil
	p.pools.stir(AllShards)
}

// Muster returns a server whose sessions the Relay of a shard should hold now, all that are to keep their client IDs; nil: none.
// next is when to ask again, unless it is zero.
func (p *Pool) Muster(now time.Time, shard int) (lost *Server, next time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, home := range p.lined {
		switch l := home.line; {
		case l.since.IsZero() || slices.Contains(l.mustered, shard):
		case home.heardAfter(l.since):
			if !l.open {
				l.since = time.Time{} // it lives
				p.pools.stir(AllShards)
			}
		case now.Before(l.verdict):
			if next.IsZero() || l.verdict.Before(next) {
				next = l.verdict
			}
		default:
			return home, next
		}
	}
	return nil, next
}

// Mustered notes that the Relay of a shard holds all sessions of a lost server, or that there are more than it could hold
// at once: then the line opens later.
func (p *Pool) Mustered(home *Server, now time.Time, shard int, all bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch l := home.line; {
	case l == nil:
	case all:
		l.mustered = append(l.mustered, shard)
	case l.opens.Before(now.Add(musterTime)):
		l.opens = now.Add(musterTime)
	}
}

// Turn returns a session of a shard whose turn it is, and the server that it is to ask, where it counts from now on. The
// server is nil if none can give the session its client ID; both are if there is no session, or it is too soon to ask again.
func (p *Pool) Turn(now time.Time, shard int) (*Ticket, *Server) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, home := range p.lined {
		t := home.line.first()
		if t.Shard != shard || !t.ready || t.asking != nil || now.Before(t.after) || !home.line.isOpen(now, home) {
			continue
		}
		if s := p.seekFor(t, now); s != nil {
			t.asking = s
			s.sessions++
			return t, s
		}
		if !p.hasHope(t) {
			return t, nil
		}
	}
	return nil, nil
}

// hasHope reports whether some server may still give a session its client ID.
func (p *Pool) hasHope(t *Ticket) bool {
	return len(t.unfit) == 0 || slices.ContainsFunc(p.servers, func(s *Server) bool { return t.fits(s) && s.drainedAt.IsZero() })
}

// Again notes that the server which a session asked has not taken it. The session keeps its turn, or yields it to the next.
func (p *Pool) Again(t *Ticket, now time.Time, yield bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t.asking, t.after = nil, now.Add(askAgain)
	if yield {
		p.yield(t)
	} else {
		t.home.line.pass()
	}
}

// Yield lets the next in line ask although a session is still waiting for its server's decision.
func (p *Pool) Yield(t *Ticket) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.yield(t)
}

func (p *Pool) yield(t *Ticket) {
	t.yields++
	t.home.line.turn = nil
	p.call(t.home)
}

// Offered notes that a server would take a session under another client ID than its own. It reports whether the session
// shall wait for its turn again: to ask the same server, which may have its ID later, or another one. Otherwise no server can
// give it its ID.
func (p *Pool) Offered(t *Ticket, id uint16) (wait bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s, home := t.asking, t.home
	t.asking = nil
	home.line.last = id
	home.line.pass()
	if p.mayOffer(t, s, id) {
		p.call(home)
		return true
	}
	if t.fits(s) {
		t.unfit = append(t.unfit, s)
	}
	p.yield(t)
	return p.hasHope(t)
}

// mayOffer reports whether a server that has offered a session a wrong client ID may offer the right one later. One that has
// forgotten its sessions may, until all that are free have come round. Another one hands out IDs that rise for a while.
func (p *Pool) mayOffer(t *Ticket, s *Server, id uint16) bool {
	home := t.home
	rises := t.offered(s, id)
	if s == home && home.reserved() {
		home.line.offered(home, id)
		return t.fits(home) && t.offers.count < mostOffers
	}
	most := mostOffers
	if s != home && t.fits(home) && slices.Contains(p.servers, home) && home.drainedAt.IsZero() {
		most = mostSkips // its own may come back
	}
	return rises && id < t.Client && t.offers.count < most
}

// seekFor chooses the server that a session in line is to ask, or nil: the one that it has lost, if that is open; another
// one that is; or one that may be back.
func (p *Pool) seekFor(t *Ticket, now time.Time) *Server {
	if t.To.IsValid() && !t.asked {
		t.asked = true
		if s := find(p.servers, t.To); s != nil {
			return s
		}
	}
	home := t.home
	mayBe := t.fits(home) && slices.Contains(p.servers, home) && home.hasRoom()
	if mayBe && home.downAt.IsZero() && !home.rests(now) {
		return home
	}
	if s := p.choose(now, t.Addr, t.unfit); s != nil {
		return s
	}
	if mayBe {
		return home
	}
	return p.probe(now, t.unfit)
}

// call wakes the Relay whose session is the first in line.
func (p *Pool) call(home *Server) { p.pools.stir(home.line.first().Shard) }
