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
	s := &e.Value
	if !s.client.Down {
		return false
	}
	old, ok := s.client.Conn.(codec.Succeeder)
	if !ok {
		return false
	}
	conn, entry := old.Successor(), s.listener.entryOf(s.protocol)
	if conn == nil || entry == nil || r.draining || s.listener.retired {
		return false
	}
	if s.upstream.Live() && s.socket != nil {
		r.closing.add(now, e, r)
	}
	s.upstream.Down = true
	l, from := s.listener, e.Key.Client
	r.forget(now, e)
	r.open(now, l, entry, l.socket, from, 0, conn)
	return true
}
