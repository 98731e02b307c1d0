package upstream

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"tidegate/internal/record"
)

// A Riptide server assigns client IDs in the order in which clients join. A freed ID goes to the end of the server's
// list. So a restarted server gives each client another ID than before. Held sessions that must keep their IDs
// therefore ask one after the other, in the order of their IDs, over all loops.

// Ticket is the place of a held session in the queue of its server. The exported fields are set before Pool.Enqueue.
type Ticket struct {
	Client uint16         // the client ID, which the session must keep
	Addr   netip.Addr     // of the client, for balancing
	To     netip.AddrPort // the server to ask first; zero: its own server, or another
	Shard  int            // of the session's Relay
	Owner  any            // for the Relay's own use

	home   *Server   // the server whose queue has the ticket; nil: none
	asking *Server   // the server that the session asks now, or nil
	ready  bool      // the session has left its server
	asked  bool      // the session has asked To
	after  time.Time // the session asks no earlier
	yields int       // how often the session let others go first
	waived bool      // new sessions need not wait for it
	offers offers
	unfit  []*Server // servers that cannot give the session its client ID
}

// offers counts the wrong client IDs that one server offered to a session.
type offers struct {
	by    *Server
	count int
	last  uint16
}

const (
	// maxOffers bounds the wrong client IDs that a server may offer to a session. Few servers have more places.
	maxOffers = 256
	// maxForeignOffers is the bound for another server, while the session's own server may come back.
	maxForeignOffers = 32
)

// fits reports whether a server may still give the session its client ID.
func (t *Ticket) fits(s *Server) bool { return !slices.Contains(t.unfit, s) }

// offered counts a wrong client ID. It reports whether the ID is higher than the server's last offer.
func (t *Ticket) offered(s *Server, id uint16) (rises bool) {
	o := &t.offers
	if o.by != s {
		*o = offers{by: s}
	}
	rises = id > o.last
	o.last = id
	o.count++
	return rises
}

// waitQueue holds the tickets of the sessions that one server has lost. A server without such sessions has none.
type waitQueue struct {
	tickets []*Ticket // by client ID
	turn    *Ticket   // the ticket that has its turn; nil: not chosen yet
	last    uint16    // the client ID that was given or offered last
	waived  int       // tickets that new sessions need not wait for

	// since is the time of the loss: the server's sessions have heard nothing since then. It is zero if the sessions
	// were moved, or if other sessions still hear the server.
	since   time.Time
	verdict time.Time // time when the loss is believed; sessions that have not noticed it are held too
	opens   time.Time // when the first ticket may ask
	open    bool
	held    []int // shards whose sessions are held

	offers map[uint16]bool // wrong client IDs that the restarted server has offered, so they are free
}

// add inserts a ticket in the order of client IDs.
func (q *waitQueue) add(t *Ticket) {
	at, _ := slices.BinarySearchFunc(q.tickets, t, func(a, b *Ticket) int { return cmp.Compare(a.Client, b.Client) })
	q.tickets = slices.Insert(q.tickets, at, t)
	q.pass()
}

// remove deletes a ticket.
func (q *waitQueue) remove(t *Ticket) {
	q.tickets = slices.DeleteFunc(q.tickets, func(o *Ticket) bool { return o == t })
	if t.asking != nil {
		q.last = t.Client // the session got its own ID
	}
	if t.waived {
		q.waived--
	}
	if q.turn == t {
		q.turn = nil
	}
	q.pass()
}

// yield puts a ticket behind tickets that have yielded less. With waive, new sessions may ask the server before it.
func (q *waitQueue) yield(t *Ticket, waive bool) {
	t.yields++
	q.turn = nil
	if waive && !t.waived {
		t.waived = true
		q.waived++
	}
}

// offered notes a wrong client ID from the restarted server. A repeated offer means that the server has offered all
// free IDs. It then cannot serve the sessions with other IDs.
func (q *waitQueue) offered(home *Server, id uint16) {
	if q.offers == nil {
		q.offers = make(map[uint16]bool)
	}
	if !q.offers[id] {
		q.offers[id] = true
		return
	}
	for _, t := range q.tickets {
		if !q.offers[t.Client] && t.asking == nil && t.fits(home) {
			t.unfit = append(t.unfit, home)
		}
	}
}

// pass makes first choose again, unless the ticket with the turn is asking.
func (q *waitQueue) pass() {
	if q.turn != nil && q.turn.asking == nil {
		q.turn = nil
	}
}

// first returns the ticket that has its turn. It chooses among the tickets that have yielded least. It takes the one
// with the next higher client ID, the server's own order, or else the one with the lowest ID.
func (q *waitQueue) first() *Ticket {
	if q.turn != nil {
		return q.turn
	}
	for _, t := range q.tickets {
		if q.turn == nil || q.before(t, q.turn) {
			q.turn = t
		}
	}
	return q.turn
}

func (q *waitQueue) before(a, b *Ticket) bool {
	if a.yields != b.yields {
		return a.yields < b.yields
	}
	return a.Client-q.last-1 < b.Client-q.last-1 // the distance from the last ID, modulo 65,536
}

// isOpen reports whether the queued sessions may ask.
func (q *waitQueue) isOpen(now time.Time, home *Server) bool {
	q.open = q.open || q.since.IsZero() || home.sessions == 0 || !now.Before(q.opens)
	return q.open
}

// reserved reports whether lost sessions have priority: a new session could take their client IDs.
func (s *Server) reserved() bool { return s.lost() && s.queue.waived < len(s.queue.tickets) }

// lost reports whether the server has lost all its sessions and some of them are still queued.
func (s *Server) lost() bool { return s.queue != nil && !s.queue.since.IsZero() }

// Intervals at which held sessions ask a server that does not answer.
const (
	askEvery = 750 * time.Millisecond // while earlier requests wait for an answer
	askAgain = 250 * time.Millisecond // after the server has failed
)

// PickForHeld chooses a server for a held session that may get any client ID. It counts the session there until
// Release. If no server is open, it returns a resting or down server that is due for another attempt.
func (p *Pool) PickForHeld(now time.Time, client netip.Addr) *Server {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.choose(now, client, p.unproven())
	if s == nil {
		s = p.probe(now, nil)
	}
	if s != nil {
		s.sessions++
	}
	return s
}

// unproven returns the servers that failed a session and have not been heard since. Held sessions must not all ask
// such a server at once when its rest ends.
func (p *Pool) unproven() (all []*Server) {
	for _, s := range p.servers {
		if s.failures > 0 && !s.heardAfter(s.failedAt) {
			all = append(all, s)
		}
	}
	return all
}

// probe returns the server that is due for another attempt, or nil.
func (p *Pool) probe(now time.Time, excluded []*Server) (best *Server) {
	for _, s := range p.servers {
		switch {
		case !s.hasRoom() || s.reserved() || now.Before(s.askAt) || slices.Contains(excluded, s):
		case best == nil || s.askAt.Before(best.askAt):
			best = s
		}
	}
	if best != nil {
		best.askAt = now.Add(askEvery)
	}
	return best
}

// AnyReserved reports whether some server is reserved for its lost sessions, so that new sessions should wait.
func (p *Pool) AnyReserved() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(p.servers, func(s *Server) bool { return s.reserved() && s.hasRoom() })
}

// IsReserved reports whether a server is reserved for its lost sessions.
func (p *Pool) IsReserved(s *Server) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return s.reserved()
}

// SavedTicket is the state of a Ticket that belongs to the Pool, as plain data. It includes the state of its queue.
type SavedTicket struct {
	Home   netip.AddrPort   `cbor:"1,keyasint"`
	Asking netip.AddrPort   `cbor:"2,keyasint,omitempty"`
	Ready  bool             `cbor:"3,keyasint,omitempty"`
	Asked  bool             `cbor:"4,keyasint,omitempty"`
	After  record.Moment    `cbor:"5,keyasint,omitempty"`
	Yields int              `cbor:"6,keyasint,omitempty"`
	Waived bool             `cbor:"7,keyasint,omitempty"`
	By     netip.AddrPort   `cbor:"8,keyasint,omitempty"` // the server of the last wrong offer
	Offers int              `cbor:"9,keyasint,omitempty"`
	Last   uint16           `cbor:"10,keyasint,omitempty"`
	Unfit  []netip.AddrPort `cbor:"11,keyasint,omitempty"`

	QueueLast uint16        `cbor:"12,keyasint,omitempty"`
	Since     record.Moment `cbor:"13,keyasint,omitempty"`
	Verdict   record.Moment `cbor:"14,keyasint,omitempty"`
	Opens     record.Moment `cbor:"15,keyasint,omitempty"`
	Open      bool          `cbor:"16,keyasint,omitempty"`
	Held      []int         `cbor:"17,keyasint,omitempty"`
	Offered   []uint16      `cbor:"18,keyasint,omitempty"` // only with the queue's first ticket
	Turn      bool          `cbor:"19,keyasint,omitempty"` // it is this ticket's turn
}

// maxUnfit bounds the unfit servers of a saved ticket.
const maxUnfit = 1 << 12

// SaveTicket returns the state of a queued Ticket as plain data.
func (p *Pool) SaveTicket(now time.Time, t *Ticket) SavedTicket {
	p.mu.Lock()
	defer p.mu.Unlock()
	q := t.home.queue
	v := SavedTicket{
		Home: t.home.Addr, Ready: t.ready, Asked: t.asked, After: record.MomentOf(now, t.after), Yields: t.yields,
		Waived: t.waived, Offers: t.offers.count, Last: t.offers.last,
		QueueLast: q.last, Since: record.MomentOf(now, q.since), Verdict: record.MomentOf(now, q.verdict),
		Opens: record.MomentOf(now, q.opens), Open: q.open, Held: slices.Clone(q.held), Turn: q.turn == t,
	}
	if t.asking != nil {
		v.Asking = t.asking.Addr
	}
	if t.offers.by != nil {
		v.By = t.offers.by.Addr
	}
	for _, s := range t.unfit {
		v.Unfit = append(v.Unfit, s.Addr)
	}
	if q.tickets[0] == t {
		for id := range q.offers {
			v.Offered = append(v.Offered, id)
		}
		slices.Sort(v.Offered)
	}
	return v
}

// RestoreTicket puts a Ticket of another process into the queue of its server. asking is the server that its session
// asks now, or nil. It reports false if the saved state breaks a bound.
func (p *Pool) RestoreTicket(now time.Time, t *Ticket, v *SavedTicket, asking *Server) bool {
	if !v.Home.IsValid() || len(v.Unfit) > maxUnfit || v.Yields < 0 || v.Offers < 0 ||
		asking == nil && v.Asking.IsValid() {
		return false
	}
	home := p.Rejoin(v.Home)
	p.Enqueue(t, home)
	p.mu.Lock()
	defer p.mu.Unlock()
	if v.Asking.IsValid() {
		t.asking = asking
	}
	t.ready, t.asked, t.after, t.yields = v.Ready, v.Asked, v.After.Time(now), v.Yields
	t.offers = offers{by: p.known(v.By), count: v.Offers, last: v.Last}
	for _, addr := range v.Unfit {
		if s := p.known(addr); s != nil {
			t.unfit = append(t.unfit, s)
		}
	}
	q := home.queue
	if t.waived = v.Waived; v.Waived {
		q.waived++
	}
	q.last, q.since, q.verdict, q.opens = v.QueueLast, v.Since.Time(now), v.Verdict.Time(now), v.Opens.Time(now)
	q.open, q.held = v.Open, v.Held
	if v.Turn {
		q.turn = t
	}
	for _, id := range v.Offered {
		if q.offers == nil {
			q.offers = make(map[uint16]bool)
		}
		q.offers[id] = true
	}
	home.sessions-- // Rejoin has counted the lost server
	return true
}

// known returns the server with an address, listed or not, or nil.
func (p *Pool) known(addr netip.AddrPort) *Server {
	if s := find(p.servers, addr); s != nil {
		return s
	}
	return find(slices.Concat(p.leaving, p.queued), addr)
}
