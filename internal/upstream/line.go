package upstream

import (
	"cmp"
	"net/netip"
	"slices"
	"time"
)

// A Riptide server hands out client IDs in the order in which clients come, and a freed one goes to the end of its queue. So
// a server that was restarted gives each client another ID than before. Held sessions that must keep theirs therefore ask one
// after the other, in the order of their IDs, whichever loops they are on.

// Ticket is the place of a held session in the line of its server. Its fields are set before Pool.Queue and stay.
type Ticket struct {
	Client uint16         // its client ID, which it must keep
	Addr   netip.Addr     // of the client, by which servers are balanced
	To     netip.AddrPort // the server that it asks first; zero: its own, or any other
	Shard  int            // of the Relay that has the session
	Owner  any            // for that Relay

	home   *Server // in whose line it is; nil: in none
	asking *Server // the server that it is asking now, or nil
	ready  bool    // it has left its server
	asked  bool    // To
	after  time.Time
	yields int // times that it let the others go first
	offers offers
	unfit  []*Server // that do not give it its client ID
}

// offers are the wrong client IDs that a session was offered by one server.
type offers struct {
	by    *Server
	count int
	last  uint16
}

const (
	// mostOffers is how many wrong client IDs a server may offer to a session. Servers have rarely as many places.
	mostOffers = 256
	// mostSkips is the same for a server that has not lost the session, while the one that has may come back.
	mostSkips = 32
)

// fits reports whether a server has not been found unable to give the session its client ID.
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

// line is the tickets of the sessions that one server has lost. While there are none, the server has no line.
type line struct {
	tickets []*Ticket // by client ID
	turn    *Ticket   // whose turn it is; nil: to be found out
	last    uint16    // client ID that was given or offered last

	// since is when the server was lost, as far as its sessions know: they have heard nothing since then. Zero: they were
	// moved, or others still hear it.
	since    time.Time
	verdict  time.Time // when since is believed, and sessions that have not noticed yet are held too
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
	if l.turn == t {
		l.turn = nil
	}
	l.pass()
}

// offered notes a wrong client ID that the restarted server has offered. Once one has come round, all that are free have, and
// the server is of no use to sessions whose IDs were not among them.
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

// pass has it found out anew whose turn it is, unless that one is asking.
func (l *line) pass() {
	if l.turn != nil && l.turn.asking == nil {
		l.turn = nil
	}
}

// first is the ticket whose turn it is: of those that have yielded least the one with the next client ID, as a server hands
// them out, or the lowest if there is no higher one.
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
	return a.Client-l.last-1 < b.Client-l.last-1 // IDs wrap: the distance from the last one counts
}

// isOpen reports whether the sessions in line may ask.
func (l *line) isOpen(now time.Time, home *Server) bool {
	l.open = l.open || l.since.IsZero() || home.sessions == 0 || !now.Before(l.opens)
	return l.open
}

// reserved reports whether the server was lost and its sessions have not got their client IDs back: no other session may
// take them before.
func (s *Server) reserved() bool { return s.line != nil && !s.line.since.IsZero() }
