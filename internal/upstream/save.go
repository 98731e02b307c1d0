package upstream

import (
	"net/netip"
	"slices"
	"time"

	"tidegate/internal/record"
)

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
