package relay

import (
	"time"

	"tidegate/codec"
)

// clearAway removes a session that has ended, and reports whether it did.
func clearAway(r *Relay, now time.Time, e *Entry) bool {
	switch {
	case succeed(r, now, e):
		return true
	case !e.Value.over() || e.Value.waits:
		return false
	}
	r.forget(now, e)
	return true
}

// succeed gives the place of an ended session to a new client at its address, if there is one. The server gets the
// goodbye of the old one without the session.
func succeed(r *Relay, now time.Time, e *Entry) bool {
	p := &e.Value
	if !p.client.Down {
		return false
	}
	old, ok := p.client.Conn.(codec.Succeeder)
	if !ok {
		return false
	}
	conn, w := old.Successor(), p.listener.entryOf(p.protocol)
	if conn == nil || w == nil || r.draining || p.listener.retired {
		return false
	}
	if p.upstream.Live() && p.socket != nil {
		r.closing.add(now, e, r)
	}
	p.upstream.Down = true
	d, from := p.listener, e.Key.Client
	r.forget(now, e)
	r.open(now, d, w, d.socket, from, 0, conn)
	return true
}
