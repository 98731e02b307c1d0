package relay

import (
	"time"

	"tidegate/codec"
	"tidegate/proxy/stats"
)

// complete restores the pending part of a session. It reports whether the session is whole then. A record that cannot
// be used ends its session.
func complete(r *Relay, now time.Time, e *Entry) bool {
	s := &e.Value
	if !s.isPending() {
		return true
	}
	t := s.pending.restored
	if t == nil {
		var err error
		if t, err = restoreCalm(r, s.pending.at, s, s.pending.body); err != nil {
			discard(r, now, e, err)
			return false
		}
	}
	t.pending = nil
	if t.id = s.id; s.origin == ownID {
		t.origin = ownID
	}
	*s.terminated = *t
	r.samples.add(s)
	r.dirty.mark(e)
	return true
}

// restoreCalm restores the second part of a session with nothing else under way.
func restoreCalm(r *Relay, at time.Time, s *link, body []byte) (*terminated, error) {
	t, _, err := restoreTerminated(r, at, s, body)
	if err == nil && (s.life != joined || !t.isCalm()) {
		err = unusable("state", "not established")
	}
	return t, err
}

// discard removes a pending session. Its peers hear nothing, since only the record knew their connections.
func discard(r *Relay, now time.Time, e *Entry, err error) {
	r.journal.of(r.journal.log.Error(), e).Err(err).Msg("session lost: its record is damaged")
	r.remove(now, e, stats.ByProxy, codec.Violation)
}
