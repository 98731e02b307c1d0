package upstream

import (
	"cmp"
	"net/netip"
	"slices"
	"time"
)

// A Riptide server hands out client IDs in the order in which clients come. A freed ID goes to the end of its queue.
// So a restarted server gives each client another ID than before. Held sessions that must keep their IDs therefore ask
// one after the other, in the order of their IDs, over all loops.

// Ticket is the place of a held session in the line of its server. Its exported fields are set before Pool.Enqueue.
type Ticket struct {
	Client uint16         // its client ID, which it must keep
	Addr   netip.Addr     // of the client, by which servers are balanced
	To     netip.AddrPort // the server that it asks first; zero: its own, or another
	Shard  int            // of the Relay that has the session
	Owner  any            // for that Relay

	home   *Server   // the server of the line; nil: in no line
	asking *Server   // the server that it is asking now, or nil
	ready  bool      // it has left its server
	asked  bool      // it has asked To
	after  time.Time // it asks no earlier
	yields int       // how often it let the others go first
	waived bool      // new sessions need not wait for it
	offers offers
	unfit  []*Server // servers that cannot give it its client ID
}

// offers are the wrong client IDs that a session was offered by one server.
type offers struct {
	by    *Server
	count int
	last  uint16
}

const (
	// mostOffers is how many wrong client IDs a server may offer to a session. Few servers have more places.
	mostOffers = 256
	// mostSkips is the same for another server, while the session's own may come back.
	mostSkips = 32
)

// fits reports whether a server may have the session's client ID.
func (t *Ticket) fits(s *Server) bool { return !slices.Contains(t.unfit, s) }

// offered counts a wrong client ID, and reports whether it is higher than the last one that the server has offered.
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

// line holds the tickets of the sessions that one server has lost. A server without such sessions has no line.
type line struct {
	tickets []*Ticket // by client ID
	turn    *Ticket   // the ticket that has its turn; nil: not chosen yet
	last    uint16    // client ID that was given or offered last
	waived  int       // tickets that new sessions need not wait for

	// since is when the server was lost: its sessions have heard nothing since then. It is zero if the sessions were moved,
	// or if others still hear the server.
	since    time.Time
	verdict  time.Time // when since is believed, and the sessions that have not noticed are held too
	opens    time.Time // when the first may ask
	open     bool
	mustered []int // shards whose sessions are held

	offers map[uint16]bool // wrong client IDs that the restarted server has offered: they are free
}

// add puts a ticket in its place.
func (l *line) add(t *Ticket) {
	at, _ := slices.BinarySearchFunc(l.tickets, t, func(a, b *Ticket) int { return cmp.Compare(a.Client, b.Client) })
	l.tickets = slices.Insert(l.tickets, at, t)
	l.pass()
}

// remove takes a ticket out.
func (l *line) remove(t *Ticket) {
	l.tickets = slices.DeleteFunc(l.tickets, func(o *Ticket) bool { return o == t })
	if t.asking != nil {
		l.last = t.Client // it got its own
	}
	if t.waived {
		l.waived--
	}
	if l.turn == t {
		l.turn = nil
	}
	l.pass()
}

// yield puts a ticket behind those that have yielded less. waive lets new sessions ask the server before it.
func (l *line) yield(t *Ticket, waive bool) {
	t.yields++
	l.turn = nil
	if waive && !t.waived {
		t.waived = true
		l.waived++
	}
}

// offered notes a wrong client ID that the restarted server has offered. When the server offers one again, it has offered
// all free ones. Then it is unfit for the sessions with other IDs.
func (l *line) offered(home *Server, id uint16) {
	if l.offers == nil {
		l.offers = make(map[uint16]bool)
	}
	if !l.offers[id] {
		l.offers[id] = true
		return
	}
	for _, t := range l.tickets {
		if !l.offers[t.Client] && t.asking == nil && t.fits(home) {
			t.unfit = append(t.unfit, home)
		}
	}
}

// pass has the turn chosen anew, unless the ticket that has it is asking.
func (l *line) pass() {
	if l.turn != nil && l.turn.asking == nil {
		l.turn = nil
	}
}

// first returns the ticket that has its turn. Of the tickets that have yielded least it is the one with the next higher
// client ID, as a server hands them out, or else the one with the lowest ID.
func (l *line) first() *Ticket {
	if l.turn != nil {
		return l.turn
	}
	for _, t := range l.tickets {
		if l.turn == nil || l.before(t, l.turn) {
			l.turn = t
		}
	}
	return l.turn
}

func (l *line) before(a, b *Ticket) bool {
	if a.yields != b.yields {
		return a.yields < b.yields
	}
	return a.Client-l.last-1 < b.Client-l.last-1 // the distance from the last ID, modulo 65,536
}

// isOpen reports whether the sessions in line may ask.
func (l *line) isOpen(now time.Time, home *Server) bool {
	l.open = l.open || l.since.IsZero() || home.sessions == 0 || !now.Before(l.opens)
	return l.open
}

// reserved reports whether sessions that the server has lost come first: a new session could take their client IDs.
func (s *Server) reserved() bool { return s.lost() && s.line.waived < len(s.line.tickets) }

// lost reports whether the server has lost all its sessions, and some are still in line.
func (s *Server) lost() bool { return s.line != nil && !s.line.since.IsZero() }
