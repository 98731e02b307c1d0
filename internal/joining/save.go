package joining

import (
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"net/netip"
	"strings"
	"time"

	"tidegate/codec/nethernet"
	"tidegate/internal/record"
	"tidegate/internal/source"
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

	// Of a client whose server this program is:
	Certificate  string   `cbor:"14,keyasint,omitempty"` // the digest of the server's; empty: another is the server
	Fingerprints []string `cbor:"15,keyasint,omitempty"` // algorithm, space, digest
	MaxMessage   int      `cbor:"16,keyasint,omitempty"`
	Key          []byte   `cbor:"17,keyasint,omitempty" secret:"true"` // an uncompressed point of P-384; none: any key
}

// Username is what a client's requests carry.
func (v *SavedTicket) Username() string { return v.ServerUfrag + ":" + v.ClientUfrag }

// Save returns the joins that wait for their players. Sessions save their own.
func (k *Tickets) Save(now time.Time) (all []SavedTicket) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	for _, t := range k.answered {
		if !t.borrowed && t.stage == Answered {
			all = append(all, k.save(t, now))
		}
	}
	return all
}

// save returns the record of a join. The caller has the table's lock.
func (k *Tickets) save(t *Ticket, now time.Time) SavedTicket {
	n, j := t.Told(), k.join(t)
	v := SavedTicket{
		ID: j.ID, Route: t.Route, Client: t.Client, Server: t.Server, Target: n.Target,
		ServerUfrag: n.ServerUfrag, ServerPassword: n.ServerPassword, ClientUfrag: n.ClientUfrag,
		Asked: record.MomentOf(now, j.Asked), Answered: record.MomentOf(now, j.Answered),
		Admitted: record.MomentOf(now, j.Admitted), From: t.from, Owner: t.owner,
	}
	if p := t.Peer; p != nil {
		v.Certificate, v.MaxMessage = p.Certificate, p.MaxMessageSize
		for _, f := range p.Fingerprints {
			v.Fingerprints = append(v.Fingerprints, f.Algorithm+" "+f.Digest)
		}
		if p.Key != nil {
			v.Key, _ = p.Key.Bytes() // an error needs another curve
		}
	}
	return v
}

// SaveOne returns the record of one join, for its session.
func (k *Tickets) SaveOne(now time.Time, t *Ticket) SavedTicket {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.save(t, now)
}

// RestoreOne returns the join of a session that another process had, and that a loop has now. A join without a place in
// the table still belongs to its session, whose addresses are known.
func (k *Tickets) RestoreOne(now time.Time, v *SavedTicket, loop int) *Ticket {
	k.mu.Lock()
	defer k.mu.Unlock()
	t := k.ticket(now, v)
	t.owner = uint16(loop)
	_ = k.restore(t)
	return t
}

// Withdraw takes a join out that another process goes on with. It is not over.
func (k *Tickets) Withdraw(t *Ticket) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.withdraw(t)
}

// withdraw is Withdraw for a caller with the lock.
func (k *Tickets) withdraw(t *Ticket) {
	if k.answered[t.name()] != t {
		return
	}
	delete(k.answered, t.name())
	k.leave(t)
	if _, waits := k.unfinished[t]; waits {
		k.finish(t)
	} else {
		k.sessions--
	}
}

// Restore adds the joins of another process, and returns the number that cannot be used. The table's bounds hold.
func (k *Tickets) Restore(now time.Time, all []SavedTicket) (lost int) {
	for i := range all {
		k.mu.Lock()
		t := k.ticket(now, &all[i])
		err := k.restore(t)
		if err == nil {
			k.mu.Unlock()
			continue
		}
		lost++
		k.over(now, t, Failed, "it was answered before an upgrade: "+err.Error())
	}
	return lost
}

func (k *Tickets) ticket(now time.Time, v *SavedTicket) *Ticket {
	t := &Ticket{
		Peer: v.peer(), Way: &Way{Route: v.Route, Server: v.Server}, Client: v.Client,
		asked: k.since(cmp.Or(v.Asked.Time(now), now)), from: v.From, owner: v.Owner, stage: Answered,
	}
	t.answered = k.after(t, v.Answered.Time(now))
	if at := v.Admitted.Time(now); !at.IsZero() {
		t.admitted = k.after(t, at)
	}
	k.keep(t, Names{v.ServerUfrag, v.ServerPassword, v.ClientUfrag, v.Target}, v.ID)
	return t
}

func (v *SavedTicket) peer() *nethernet.Peer {
	if v.Certificate == "" {
		return nil
	}
	p := &nethernet.Peer{MaxMessageSize: v.MaxMessage, Certificate: v.Certificate}
	for _, text := range v.Fingerprints {
		algorithm, digest, _ := strings.Cut(text, " ")
		p.Fingerprints = append(p.Fingerprints, nethernet.Fingerprint{Algorithm: algorithm, Digest: digest})
	}
	if v.Key != nil {
		var err error
		if p.Key, err = ecdsa.ParseUncompressedPublicKey(elliptic.P384(), v.Key); err != nil {
			p.Fingerprints = nil // a damaged record lets no client in
		}
	}
	return p
}

// restore puts a join into the table, or returns why it cannot.
func (k *Tickets) restore(t *Ticket) error {
	comes, n := t.admitted == 0, t.Told()
	switch {
	case !t.Client.IsValid() || !n.Target.IsValid(), n.ServerUfrag == "" || n.ServerPassword == "" || n.ClientUfrag == "":
		return errRecord
	case k.answered[t.name()] != nil:
		return errNames
	case comes && !t.borrowed && len(k.unfinished)-k.borrowed >= k.limits.Unfinished,
		t.borrowed && k.borrowed >= maxBorrowed,
		!comes && k.sessions >= k.limits.Sessions:
		return ErrFull
	case comes:
		t.unproved.Store(true)
		k.unfinished[t] = struct{}{}
		if t.borrowed {
			k.borrowed++
			break
		}
		k.networks[source.Of(t.Client).Network()]++
		if t.Peer == nil && k.place != nil {
			k.places[t] = k.place(t.Server)
		}
	default:
		t.stage = Admitted
		k.sessions++
	}
	k.answered[t.name()] = t
	return nil
}
