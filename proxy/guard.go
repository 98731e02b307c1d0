package proxy

import (
	"net/netip"
	"time"

	"tidegate/codec"
	"tidegate/filter"
	"tidegate/ratelimit"
)

// guard is what decides about the present: who may come in, and what may pass. Every datagram from a client is judged in
// mayEnter or mayPass, and every message in mayCross.
type guard struct {
	bans    *ratelimit.Bans
	filters filters
}

// mayEnter judges a datagram from an address without a session, before its protocol sees it.
func (r *Relay) mayEnter(now time.Time, d *door, from netip.AddrPort, datagram []byte) bool {
	if r.guard.bans.Find(now, from.Addr()) != nil {
		r.drop(now, DropBanned, d, from, len(datagram), nil)
		return false
	}
	return r.mayCome(now, d, from, len(datagram))
}

// mayCross judges a message that a side of a session sent, before it goes on to the other.
func (r *Relay) mayCross(now time.Time, e *entry, from filter.Direction, m *codec.Message) bool {
	return r.maySay(now, e, from, m)
}

// sentence does to a session what a verdict says, and reports whether what the verdict is about may go on.
func (r *Relay) sentence(now time.Time, e *entry, v ratelimit.Verdict, why string) bool {
	switch v {
	case ratelimit.Disconnect:
		r.end(now, e, blameProxy, codec.Goodbye{Reason: codec.Kicked})
	case ratelimit.BanSource:
		r.banSource(now, e, why)
	}
	return v < ratelimit.Drop
}

// banSource ends a session, and bans its address if the client has proved it: who forges an address must not be able to
// have it banned.
func (r *Relay) banSource(now time.Time, e *entry, why string) {
	p := &e.Value
	reason := codec.Kicked
	if p.proved() && p.client.up && p.upstream.up {
		ban := r.guard.bans.Offend(now, e.Key.Client.Addr(), why)
		r.journal.banned(e, &ban)
		reason = codec.Banned
	}
	r.end(now, e, blameProxy, codec.Goodbye{Reason: reason})
}

// proved reports whether the client has shown that its address is its own.
func (p *pair) proved() bool {
	if p.door.stream {
		return true
	}
	prover, ok := p.protocol.(codec.Prover)
	if !ok {
		return false
	}
	switch prover.Proof() {
	case codec.ProvedAccept:
		return true
	case codec.ProvedConnect:
		return p.client.up
	case codec.ProvedClientID:
		return p.client.up && p.ownsID // servers count theirs up from 1
	}
	return false
}

// EnforceBans ends the sessions whose clients have been banned since they came.
func (r *Relay) EnforceBans(now time.Time) {
	for e := range r.table.All {
		if !e.Value.ending && r.guard.bans.Find(now, e.Key.Client.Addr()) != nil {
			r.end(now, e, blameProxy, codec.Goodbye{Reason: codec.Banned})
			r.settle(now, e)
		}
	}
	r.endBannedPlains(now)
}
