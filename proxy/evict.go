package proxy

import (
	"net/netip"
	"time"

	"tidegate/codec"
	"tidegate/proxy/stats"
	sessions "tidegate/session"
)

// patience protects a half-open session whose client has proved its address from new clients with proof. It is longer
// than an honest handshake with a server that answers.
const patience = 3 * time.Second

// youth protects a half-open session whose client has not proved its address from new clients without proof. It
// applies while only half-open places are short. Such clients repeat themselves, and find places when the burst of
// handshakes is over.
const youth = time.Second

// room reports why there is no place for a new client, or nil. When all places are taken, a half-open session makes
// room.
func (t sessionTable) room(now time.Time, from netip.AddrPort, proved bool) error {
	full := t.Room(from.Addr())
	if t.victim(now, full, proved) != nil {
		return nil
	}
	return full
}

// victim returns the session that makes room for a new client, or nil. full is why the table has no room. The victim
// is the oldest session without proof of address. If there is none, a new client with proof takes the place of the
// oldest half-open session that is older than patience. Established sessions are safe.
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

// evict ends a half-open session at once. It says goodbye to both sides, and does not wait for answers.
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
