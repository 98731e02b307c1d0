package relay

import "time"

// pending is the part of an imported session that is not restored yet: its connections and its bridge. To restore all
// sessions at once would take longer than a player should wait. So the next datagram or visit restores a session, at
// the latest the walk that the import begins.
type pending struct {
	body     []byte      // a saved.Terminated
	at       time.Time   // stands for the moment of saving
	identity uint64      // of a client that is present
	restored *terminated // from a pre-copy; nil: not yet
}

// isPending reports whether a part of the session is not restored yet.
func (s *link) isPending() bool { return s.terminated != nil && s.pending != nil }

// isCalm reports whether nothing but the connections of a session depends on its second part.
func (t *terminated) isCalm() bool {
	return t.client.Live() && t.upstream.Live() && t.hold == nil && t.earlier == nil
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
