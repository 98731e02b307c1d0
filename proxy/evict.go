package proxy

import (
	"net/netip"
	"time"

	"tidegate/codec"
	"tidegate/proxy/stats"
	sessions "tidegate/session"
)

// patience is how long a half-open session whose client has proved its address is safe from newcomers who have, too:
// longer than an honest handshake with a server that answers.
const patience = 3 * time.Second

// youth is how long a half-open session whose client has not proved its address is safe from newcomers like it, as long
// as only half-open places are short. They repeat themselves, and find places when a crowd's handshakes are over.
const youth = time.Second

// room reports why there is none for a newcomer, or nil: when all places are taken, a half-open session makes room.
func (t sessionTable) room(now time.Time, from netip.AddrPort, proved bool) error {
	full := t.Room(from.Addr())
	if t.victim(now, full, proved) != nil {
		return nil
	}
	return full
}

// victim returns the session that makes room for a newcomer, or nil. full is why the table has no room. The victim is
// the oldest session without proof of address. If there is none, a newcomer with proof takes the place of the oldest
// half-open session that has had its time. Established sessions are safe.
func (t sessionTable) victim(now time.Time, full error, proved bool) *entry {
	if full != sessions.ErrHalfOpen && full != sessions.ErrFull {
		return nil
	}
	if e := t.Eldest(false); e != nil {
		if !proved && full == sessions.ErrHalfOpen && now.Sub(e.Value.opened) < youth {
			return nil
		}
		return e
	}
	if e := t.Eldest(true); e != nil && proved && now.Sub(e.Value.opened) >= patience {
		return e
	}
	return nil
}

// evict ends a half-open session at once: its sides are told, and nobody waits for an answer.
func (r *Relay) evict(now time.Time, e *entry) {
	p := &e.Value
	r.counters.Evicted++
	if p.isRelayed() {
		r.endRelayed(now, e, stats.ByProxy, codec.ServerFull)
		return
	}
	r.end(now, e, stats.ByProxy, codec.Goodbye{Reason: codec.ServerFull})
	r.transmit(now, e)
	p.client.Down, p.upstream.Down = true, true
	r.forget(now, e)
}
