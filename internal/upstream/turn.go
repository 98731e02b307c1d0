package upstream

import (
	"slices"
	"time"
)

const (
	// confirmTime is the silence that confirms a loss: within it, no session may hear the server. A living Riptide
	// server answers each session every second.
	confirmTime = 1100 * time.Millisecond
	// holdTime is the time that Relays get to hold the sessions that have not noticed the loss.
	holdTime = 50 * time.Millisecond
	// settleTime is the time after a verdict in which another reported loss of the server is ignored.
	settleTime = time.Second
)

// Enqueue adds a session to the queue of its server. The session has no turn before Ready.
func (p *Pool) Enqueue(t *Ticket, home *Server) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if home.queue == nil {
		home.queue = new(waitQueue)
		p.queued = append(p.queued, home)
		if len(p.queued) == 1 {
			p.pools.addQueued(p)
		}
	}
	t.home = home
	home.queue.add(t)
}

// Ready notes that a session has left its server.
func (p *Pool) Ready(t *Ticket) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t.ready = true
}

// Dequeue removes a session from its queue, because it has a server or has ended.
func (p *Pool) Dequeue(t *Ticket) {
	p.mu.Lock()
	defer p.mu.Unlock()
	home := t.home
	if home == nil {
		return
	}
	home.queue.remove(t)
	t.home = nil
	if len(home.queue.tickets) > 0 {
		p.wakeNext(home)
		return
	}
	home.queue = nil
	p.queued = slices.DeleteFunc(p.queued, func(s *Server) bool { return s == home })
	if len(p.queued) == 0 {
		p.pools.removeQueued(p)
	}
	p.pools.notify(AllShards) // new sessions may wait for this
}

// Suspect notes that a session has lost its server and has heard nothing of it since a time. Unless others hear the
// server, its other sessions are soon held as well. A silent session would notice the loss only seconds later, and
// all sessions must be queued before the first one asks.
func (p *Pool) Suspect(home *Server, now, since time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	q := home.queue
	switch {
	case q == nil:
		return
	case q.since.IsZero() && now.Before(q.verdict.Add(settleTime)):
		return // other sessions have heard it recently
	case !q.since.IsZero() && (now.Before(q.verdict.Add(settleTime)) || !home.heardAfter(q.since)):
		return // nothing new
	}
	q.since, q.verdict = since, since.Add(confirmTime)
	if q.verdict.Before(now) {
		q.verdict = now
	}
	q.opens, q.open, q.held = q.verdict.Add(holdTime), false, nil
	q.offers = nil
	p.pools.notify(AllShards)
}

// LostServer returns a lost server, or nil. The shard's Relay then holds all its sessions of that server that must
// keep their client IDs, and calls SessionsHeld. next is the time for the next call of LostServer. Zero means after
// the next notify.
func (p *Pool) LostServer(now time.Time, shard int) (lost *Server, next time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, home := range p.queued {
		switch q := home.queue; {
		case q.since.IsZero() || slices.Contains(q.held, shard):
		case home.heardAfter(q.since):
			if !q.open {
				q.since = time.Time{} // other sessions hear it
				p.pools.notify(AllShards)
			}
		case now.Before(q.verdict):
			if next.IsZero() || q.verdict.Before(next) {
				next = q.verdict
			}
		default:
			return home, next
		}
	}
	return nil, next
}

// SessionsHeld notes that a shard's Relay holds all its sessions of a lost server. If all is false, there are more
// than it could hold at once, and the queue opens later.
func (p *Pool) SessionsHeld(home *Server, now time.Time, shard int, all bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch q := home.queue; {
	case q == nil:
	case all:
		q.held = append(q.held, shard)
	case q.opens.Before(now.Add(holdTime)):
		q.opens = now.Add(holdTime)
	}
}

// NextTurn returns a session of a shard that has its turn, and the server that it must ask now. The session counts
// there from now on. The server is nil if no server can give the session its client ID. The ticket is nil if no
// session has a turn, or if it is too soon to ask again.
func (p *Pool) NextTurn(now time.Time, shard int) (*Ticket, *Server) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, home := range p.queued {
		t := home.queue.first()
		if t.Shard != shard || !t.ready || t.asking != nil || now.Before(t.after) || !home.queue.isOpen(now, home) {
			continue
		}
		if s := p.serverFor(t, now); s != nil {
			t.asking = s
			s.sessions++
			return t, s
		}
		if !p.canGetID(t) {
			return t, nil
		}
	}
	return nil, nil
}

// canGetID reports whether some server may still give a session its client ID.
func (p *Pool) canGetID(t *Ticket) bool {
	mayHave := func(s *Server) bool { return t.fits(s) && s.drainedAt.IsZero() }
	return len(t.unfit) == 0 || slices.ContainsFunc(p.servers, mayHave)
}

// Retry notes that the server has not admitted the session that asked. The session keeps its turn, or yields it.
func (p *Pool) Retry(t *Ticket, now time.Time, yield bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t.asking, t.after = nil, now.Add(askAgain)
	if yield {
		p.yield(t, true) // the server is there, but this session may never reach it
	} else {
		t.home.queue.pass()
	}
}

// Yield lets the next queued session ask, while this one still waits for the server's decision.
func (p *Pool) Yield(t *Ticket) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.yield(t, true)
}

func (p *Pool) yield(t *Ticket, waive bool) {
	t.home.queue.yield(t, waive)
	p.wakeNext(t.home)
}

// OfferedID notes that the server offers a session a client ID that is not its own. It reports whether the session
// waits for another turn: this server may offer the right ID later, or another server may. Otherwise the session
// cannot keep its ID.
func (p *Pool) OfferedID(t *Ticket, id uint16) (wait bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s, home := t.asking, t.home
	t.asking = nil
	home.queue.last = id
	home.queue.pass()
	if p.mayOffer(t, s, id) {
		p.wakeNext(home)
		return true
	}
	if t.fits(s) {
		t.unfit = append(t.unfit, s)
	}
	p.yield(t, s == home)
	return p.canGetID(t)
}

// mayOffer reports whether a server that has offered a wrong client ID may later offer the right one. A restarted
// server may, until it has offered all free IDs. Another server may if its offers rise towards the session's ID.
func (p *Pool) mayOffer(t *Ticket, s *Server, id uint16) bool {
	home := t.home
	rises := t.offered(s, id)
	if s == home && home.lost() {
		home.queue.offered(home, id)
		return t.fits(home) && t.offers.count < maxOffers
	}
	most := maxOffers
	if s != home && t.fits(home) && slices.Contains(p.servers, home) && home.drainedAt.IsZero() {
		most = maxForeignOffers // the session's own server may come back
	}
	return rises && id < t.Client && t.offers.count < most
}

// serverFor chooses the server that a queued session asks. Its own server is first if open, then another open one,
// then one that may be back. It returns nil if there is none.
func (p *Pool) serverFor(t *Ticket, now time.Time) *Server {
	if t.To.IsValid() && !t.asked {
		t.asked = true
		if s := find(p.servers, t.To); s != nil {
			return s
		}
	}
	home := t.home
	mayBe := t.fits(home) && slices.Contains(p.servers, home) && home.hasRoom()
	if mayBe && home.downAt.IsZero() && !home.isResting(now) {
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

// wakeNext wakes the Relay whose session is first in the queue.
func (p *Pool) wakeNext(home *Server) { p.pools.notify(home.queue.first().Shard) }
