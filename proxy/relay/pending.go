package relay

import (
	"time"

	"tidegate/codec"
	"tidegate/proxy/stats"
)

// pending is the part of an imported session that is not restored yet: its connections and its bridge. To restore all
// sessions at once would take longer than a player should wait. So the next datagram or visit restores a session, at
// the latest the walk that the import begins.
type pending struct {
	body     []byte      // a saved.Terminated
	at       time.Time   // stands for the moment of saving
	identity uint64      // of a client that is present
	restored *terminated // from a pre-copy; nil: not yet
}

// completing is the cost of a visit that restores a session. It takes about 20 µs.
const completing = 32

// cost returns the cost of a visit that completes the session.
func (p *pending) cost() int {
	if p.restored != nil {
		return acted
	}
	return completing
}

// isPending reports whether a part of the session is not restored yet.
func (s *session) isPending() bool { return s.terminated != nil && s.pending != nil }

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
func restoreCalm(r *Relay, at time.Time, s *session, body []byte) (*terminated, error) {
	t, _, err := restoreTerminated(r, at, s, body)
	if err == nil && !(s.life == joined && t.isCalm()) {
		err = unusable("state", "not established")
	}
	return t, err
}

// isCalm reports whether nothing but the connections of a session depends on its second part.
func (t *terminated) isCalm() bool {
	return t.client.Live() && t.upstream.Live() && t.hold == nil && t.earlier == nil
}

// discard removes a pending session. Its peers hear nothing, since only the record knew their connections.
func discard(r *Relay, now time.Time, e *Entry, err error) {
	r.journal.of(r.journal.log.Error(), e).Err(err).Msg("session lost: its record is damaged")
	r.remove(now, e, stats.ByProxy, codec.Violation)
}
