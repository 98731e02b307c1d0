package proxy

import (
	"net/netip"
	"time"

	"tidegate/codec"
	"tidegate/session"
)

// patience is how long a half-open session whose client has proved its address is safe from newcomers who have, too:
// longer than an honest handshake with a server that answers.
const patience = 3 * time.Second

// room reports why there is none for a newcomer, or nil: when all places are taken, a half-open session makes room.
func (r *Relay) room(now time.Time, from netip.AddrPort, proved bool) error {
	err := r.table.Room(from.Addr())
	if (err == session.ErrHalfOpen || err == session.ErrFull) && r.victim(now, proved) != nil {
		return nil
	}
	return err
}

// victim is the session that makes room for a newcomer, or nil: the oldest of those that have not proved their address,
// and else, for one that has, the oldest half-open one that has had its time. Established sessions are safe.
func (r *Relay) victim(now time.Time, proved bool) *entry {
	if e := r.table.Eldest(false); e != nil {
		return e
	}
	if e := r.table.Eldest(true); e != nil && proved && now.Sub(e.Value.opened) >= patience {
		return e
	}
	return nil
}

// evict ends a half-open session at once: its sides are told, and nobody waits for an answer.
func (r *Relay) evict(now time.Time, e *entry) {
	p := &e.Value
	r.counters.Evicted++
	r.end(now, e, blameProxy, codec.Goodbye{Reason: codec.ServerFull})
	r.transmit(now, e)
	p.client.down, p.upstream.down = true, true
	r.forget(now, e)
}
