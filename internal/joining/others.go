package joining

import "time"

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
		(*share)(&SavedTicket{ServerUfrag: t.ServerUfrag, ClientUfrag: t.ClientUfrag}, true)
	}
}

// Lend adds a join that another process has answered, and that ends there if its player does not come here. With came,
// the player has come elsewhere.
func (k *Tickets) Lend(now time.Time, v *SavedTicket, came bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !came {
		t := v.ticket(now)
		t.borrowed = true
		if k.restore(t) != nil {
			k.Count(Foreign)
		}
	} else if t := k.answered[v.Username()]; t != nil && t.stage == Answered {
		k.withdraw(t)
	}
}
