package signalling

import (
	"net/netip"
	"time"

	"tidegate/internal/record"
)

// SavedTicket is a join with an answer, for the process that goes on with it. A join without one ends with its HTTP
// request. A new field gets the next number.
type SavedTicket struct {
	ID     string         `cbor:"1,keyasint"`
	Route  string         `cbor:"2,keyasint"`
	Client netip.Addr     `cbor:"3,keyasint"`
	Server netip.AddrPort `cbor:"4,keyasint"`
	Target netip.AddrPort `cbor:"5,keyasint"`

	ServerUfrag    string `cbor:"6,keyasint"`
	ServerPassword string `cbor:"7,keyasint" secret:"true"`
	ClientUfrag    string `cbor:"8,keyasint"`

	Asked    record.Moment  `cbor:"9,keyasint"`
	Answered record.Moment  `cbor:"10,keyasint"`
	Admitted record.Moment  `cbor:"11,keyasint,omitempty"` // none: the player has not come
	From     netip.AddrPort `cbor:"12,keyasint,omitempty"`
	Owner    uint16         `cbor:"13,keyasint,omitempty"` // the loop
}

// Save returns all joins with an answer.
func (k *Tickets) Save(now time.Time) (all []SavedTicket) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	for _, t := range k.answered {
		all = append(all, SavedTicket{
			ID: t.id, Route: t.Route, Client: t.Client, Server: t.Server, Target: t.Target,
			ServerUfrag: t.ServerUfrag, ServerPassword: t.ServerPassword, ClientUfrag: t.ClientUfrag,
			Asked: record.MomentOf(now, t.asked), Answered: record.MomentOf(now, t.answered),
			Admitted: record.MomentOf(now, t.admitted), From: t.from, Owner: t.owner,
		})
	}
	return all
}

// Restore adds the joins of another process, and returns the number that cannot be used. The table's bounds hold.
func (k *Tickets) Restore(now time.Time, all []SavedTicket) (lost int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := range all {
		if !k.restore(now, &all[i]) {
			lost++
		}
	}
	return lost
}

func (k *Tickets) restore(now time.Time, v *SavedTicket) bool {
	t := &Ticket{
		Route: v.Route, Client: v.Client, Server: v.Server, Target: v.Target,
		ServerUfrag: v.ServerUfrag, ServerPassword: v.ServerPassword, ClientUfrag: v.ClientUfrag,
		id: v.ID, asked: v.Asked.Time(now), answered: v.Answered.Time(now), admitted: v.Admitted.Time(now),
		from: v.From, owner: v.Owner, stage: Answered,
	}
	comes := t.admitted.IsZero()
	switch {
	case !v.Client.IsValid() || !v.Target.IsValid(), v.ServerUfrag == "" || v.ServerPassword == "" || v.ClientUfrag == "",
		k.answered[t.username()] != nil,
		comes && len(k.unfinished) >= k.limits.Unfinished,
		!comes && k.sessions >= k.limits.Sessions:
		return false
	case comes:
		t.unproved.Store(true)
		k.unfinished[t] = struct{}{}
		k.networks[k.limits.Networks.Of(t.Client)]++
	default:
		t.stage = Admitted
		k.sessions++
	}
	k.answered[t.username()] = t
	return true
}
