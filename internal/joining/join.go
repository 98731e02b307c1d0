// Package joining has the joins of NetherNet's clients between their HTTP request and the end of their sessions. It has
// no I/O and no clock. docs/protocols/nethernet.md has the wire.
//
// A Ticket is what remains of a join: the names and passwords by which a client's first datagrams are known, and the
// address of the server that waits for them. Tickets (tickets.go) is the table that package signalling fills and that
// loops read. Join (join.go) is what the log is told, and save.go has the records for a successor.
package joining

import (
	"fmt"
	"net/netip"
	"time"
)

// Stage is how far a join came.
type Stage uint8

// Stages. From Refused on, the join is over.
const (
	Asked     Stage = iota // the server has the offer
	Answered               // the client has the answer
	Admitted               // a datagram has proved the client's address
	Refused                // the server said no
	Failed                 // no answer could be used, or the player came and could not be let in
	NeverCame              // no valid datagram came in time
	Ended                  // the session is over
	Lost                   // and its client was silent for so long that it is gone
)

// Join is what the log and operators are told of a join. It has no secret.
type Join struct {
	ID     string // as the client chose it
	Route  string
	Client netip.Addr     // that asked over HTTP
	Server netip.AddrPort // that was asked
	Target netip.AddrPort // to which the server's answer sends datagrams
	From   netip.AddrPort // from which the client was admitted
	Stage  Stage
	Reason string
	// Zero times: the join did not come so far.
	Asked, Answered, Admitted, Over time.Time
}

func (j *Join) isOf(a netip.Addr) bool { return j.Client == a || j.From.Addr() == a }

// String says in a sentence how far the join came.
func (j Join) String() string { return j.Tell(j.Client.String(), j.From.String()) }

// Tell is String with other texts for the client's addresses: over HTTP, and of its datagrams.
func (j *Join) Tell(client, from string) string {
	at := func(t, since time.Time) time.Duration { return t.Sub(since).Round(time.Millisecond) }
	switch j.Stage {
	case Asked:
		return fmt.Sprintf("%s asked %s, which has not answered yet", client, j.Server)
	case Answered:
		return fmt.Sprintf("%s got the answer of %s, and has sent no valid datagram yet", client, j.Server)
	case Admitted:
		return fmt.Sprintf("%s came from %s, %v after the answer of %s",
			client, from, at(j.Admitted, j.Answered), j.Server)
	case Refused:
		return fmt.Sprintf("%s refused %s: %s", j.Server, client, j.Reason)
	case Failed:
		return fmt.Sprintf("the join of %s at %s failed: %s", client, j.Server, j.Reason)
	case Malformed:
		return fmt.Sprintf("the offer of %s cannot be used", client)
	case NeverCame:
		return fmt.Sprintf("%s got the answer of %s, and no valid datagram came within %v: the candidates may be wrong, "+
			"or a firewall drops UDP", client, j.Server, at(j.Over, j.Answered))
	}
	return fmt.Sprintf("%s left after %v: %s", from, at(j.Over, j.Admitted), j.Reason)
}

// maxHistory is the number of joins that are remembered after their end.
const maxHistory = 256

// history is a ring of joins that are over.
type history struct {
	joins []Join
	next  int
}

func (h *history) add(j Join) {
	if len(h.joins) < maxHistory {
		h.joins = append(h.joins, j)
		return
	}
	h.joins[h.next] = j
	h.next = (h.next + 1) % maxHistory
}

// appendOf appends the joins of an address, the newest first.
func (h *history) appendOf(to []Join, a netip.Addr) []Join {
	for i := range h.joins {
		j := h.joins[(h.next+len(h.joins)-1-i)%len(h.joins)]
		if j.isOf(a) {
			to = append(to, j)
		}
	}
	return to
}

// Requests that became no join count beside the stages of joins.
const (
	Limited   = Lost + 1 + iota // a limit, a ban or a drain has refused it
	Malformed                   // no client of NetherNet sends it
	Foreign                     // another node has answered it, as a server that this node cannot be
	stages
)

var stageNames = [stages]string{
	"asked", "answered", "admitted", "refused", "failed", "never-came", "ended", "lost", "limited", "malformed",
	"foreign",
}

// Name returns the stage as metrics have it.
func (s Stage) Name() string { return stageNames[s] }

// Counts are totals of joins that have reached a stage, by stage.
type Counts [stages]uint64

// Count counts a request.
func (k *Tickets) Count(s Stage) { k.counts[s].Add(1) }

// Counts returns the totals.
func (k *Tickets) Counts() (c Counts) {
	for stage := range k.counts {
		c[stage] = k.counts[stage].Load()
	}
	return c
}

// Inherit adds the totals of another process. A process of another release may have fewer stages or more.
func (k *Tickets) Inherit(counts []uint64) {
	for stage := range min(len(counts), len(k.counts)) {
		k.counts[stage].Add(counts[stage])
	}
}

// A join's player may come to another process than the one that has answered: to a successor, or to another node of the
// fleet.

// Share tells the other nodes of a fleet of a join with an answer, or that its player has come. It must not block.
type Share func(v *SavedTicket, came bool)

// maxBorrowed bounds the joins of other nodes.
const maxBorrowed = 4096

// Hold lets answers wait until Release: a successor that is about to have the joins would not know them.
func (k *Tickets) Hold() { k.handover.Lock() }

// Release ends Hold. From now on, heir gives a successor the joins that are answered here; nil: there is none.
func (k *Tickets) Release(heir func(*SavedTicket) error) {
	k.heir = heir
	k.handover.Unlock()
}

// ShareWith has a fleet know of joins from now on; nil: no more.
func (k *Tickets) ShareWith(s Share) {
	if s == nil {
		k.share.Store(nil)
		return
	}
	k.share.Store(&s)
}

// tell gives a join to the process that its player may come to. The caller holds handover.
func (k *Tickets) tell(t *Ticket, v SavedTicket) error {
	if k.heir != nil {
		k.Withdraw(t)
		return k.heir(&v)
	}
	if share := k.share.Load(); share != nil {
		(*share)(&v, false)
	}
	return nil
}

// tellCome tells the fleet that the player of a join has come, if it waited until now.
func (k *Tickets) tellCome(t *Ticket, waited bool) {
	share := k.share.Load()
	if waited && !t.unproved.Load() && share != nil {
		n := t.Told()
		(*share)(&SavedTicket{ServerUfrag: n.ServerUfrag, ClientUfrag: n.ClientUfrag}, true)
	}
}

// Lend adds a join that another process has answered, and that ends there if its player does not come here. With came,
// the player has come elsewhere.
func (k *Tickets) Lend(now time.Time, v *SavedTicket, came bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !came {
		t := k.ticket(now, v)
		t.borrowed = true
		if k.restore(t) != nil {
			k.Count(Foreign)
		}
	} else if t := k.answered[v.Username()]; t != nil && t.stage == Answered {
		k.withdraw(t)
	}
}
