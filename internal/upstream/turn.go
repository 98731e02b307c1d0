package upstream

import (
	"slices"
	"time"
)

const (
	// confirm is how long all sessions must hear nothing of a server that one session has lost. A living Riptide server
	// answers each session every second.
	confirm = 1100 * time.Millisecond
	// musterTime is how long Relays have to hold the sessions that have not noticed.
	musterTime = 50 * time.Millisecond
	// settleTime is how long after a verdict another loss of the server tells nothing new.
	settleTime = time.Second
)

// Enqueue adds a session to the line of its server. It has no turn before Ready.
func (p *Pool) Enqueue(t *Ticket, home *Server) {
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

// Ready notes that a session has left its server.
func (p *Pool) Ready(t *Ticket) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t.ready = true
}

// Dequeue takes a session out of its line. It has a server, or has ended.
func (p *Pool) Dequeue(t *Ticket) {
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
	p.pools.stir(AllShards) // new sessions may wait for this
}

// Suspect notes that a session has lost its server, and has heard nothing of it since a time. Unless others hear the
// server, its other sessions are held soon as well. A session with nothing to say would notice seconds later, and all
// must be in line before the first asks.
func (p *Pool) Suspect(home *Server, now, since time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := home.line
	switch {
	case l == nil:
		return
	case l.since.IsZero() && now.Before(l.verdict.Add(settleTime)):
		return // others have heard it a moment ago
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

// LostServer returns a lost server, or nil. The Relay of the shard then holds all its sessions of that server that must keep
// their client IDs, and calls SessionsHeld. next is when to call LostServer again; zero: after the next stir.
func (p *Pool) LostServer(now time.Time, shard int) (lost *Server, next time.Time) {
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

// SessionsHeld notes that the Relay of a shard holds all its sessions of a lost server. With all false there are more than it
// could hold at once, and the line opens later.
func (p *Pool) SessionsHeld(home *Server, now time.Time, shard int, all bool) {
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

// NextTurn returns a session of a shard that has its turn, and the server that it must ask now. The session counts there from
// now on. The server is nil if no server can give the session its client ID. The ticket is nil if no session has a turn,
// or it is too soon to ask again.
func (p *Pool) NextTurn(now time.Time, shard int) (*Ticket, *Server) {
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
	mayHave := func(s *Server) bool { return t.fits(s) && s.drainedAt.IsZero() }
	return len(t.unfit) == 0 || slices.ContainsFunc(p.servers, mayHave)
}

// Retry notes that the server has not taken the session that asked. The session keeps its turn, or yields it.
func (p *Pool) Retry(t *Ticket, now time.Time, yield bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t.asking, t.after = nil, now.Add(askAgain)
	if yield {
		p.yield(t, true) // the server is there, and the session may never reach it
	} else {
		t.home.line.pass()
	}
}

// Yield lets the next session in line ask, while this one still waits for the server's decision.
func (p *Pool) Yield(t *Ticket) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.yield(t, true)
}

func (p *Pool) yield(t *Ticket, waive bool) {
	t.home.line.yield(t, waive)
	p.call(t.home)
}

// OfferedID notes that the server offers a session another client ID than its own. It reports whether the session waits
// for another turn: the same server may offer its ID later, or another server may. Otherwise it cannot have its ID.
func (p *Pool) OfferedID(t *Ticket, id uint16) (wait bool) {
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
	p.yield(t, s == home)
	return p.hasHope(t)
}

// mayOffer reports whether a server that has offered a wrong client ID may offer the right one later. A restarted server
// may, until it has offered all free ones. Another server may if its offers rise towards the session's ID.
func (p *Pool) mayOffer(t *Ticket, s *Server, id uint16) bool {
	home := t.home
	rises := t.offered(s, id)
	if s == home && home.lost() {
		home.line.offered(home, id)
		return t.fits(home) && t.offers.count < mostOffers
	}
	most := mostOffers
	if s != home && t.fits(home) && slices.Contains(p.servers, home) && home.drainedAt.IsZero() {
		most = mostSkips // the session's own may come back
	}
	return rises && id < t.Client && t.offers.count < most
}

// seekFor chooses the server that a session in line asks: its own if that is open, or else another that is open, or else
// one that may be back. It returns nil if there is none.
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
