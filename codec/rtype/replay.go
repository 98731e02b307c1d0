package rtype

import (
	"time"

	"tidegate/codec"
)

// A replay is sent in portions, so that it overloads neither the client nor the path.
const (
	portion     = 32 // instructions, or all instructions of one entity if there are more
	portionGap  = 20 * time.Millisecond
	minReplayed = time.Second // between two replays that a client asks for
)

// stage says how far a replay has come. The game's server sends a new client the world in this order.
type stage uint8

const (
	creates stage = iota
	attaches
	updates
	deletions
	replayed
)

// replay walks over a mirror and its log of deletions. A whole replay sends the world to a client that knows nothing,
// as the game's server does. Any other replay is a refresh: it repairs losses and repeats no more than that needs.
type replay struct {
	whole bool
	stage stage
	at    int       // next slot or deletion
	next  time.Time // when the next portion is due; zero: never
}

// portion queues one portion on the server's link, as far as there is room. It reports whether the replay is over.
func (r *replay) portion(s *server) (over bool) {
	for n := 0; r.stage != replayed; {
		all := len(s.mirror.slots)
		if r.stage == deletions {
			all = len(s.deleted.ring)
		}
		if r.at >= all || r.stage == deletions && r.whole { // beyond all, if the world was reset meanwhile
			r.stage, r.at = r.stage+1, 0
			continue
		}
		if n >= portion {
			return false
		}
		queued, ok := r.put(s)
		if !ok {
			return false
		}
		r.at++
		n += queued
	}
	return true
}

// put queues the present stage's instructions for one slot or deletion, and returns their number. ok is false if there
// is no room for one.
func (r *replay) put(s *server) (queued int, ok bool) {
	if r.stage == deletions {
		in, due := s.deleted.take(r.at, &s.mirror)
		if !due || s.hides(&in) {
			return 0, true
		}
		return 1, s.put(&in) != codec.ErrFull
	}
	e := &s.mirror.slots[r.at]
	switch {
	case !e.alive:
		return 0, true
	case r.stage == creates:
		return r.create(s, e)
	}
	for i := range e.components {
		n, ok := r.component(s, e, &e.components[i])
		if queued += n; !ok {
			return queued, false
		}
	}
	return queued, true
}

// create sends an entity: once in a whole replay, and a few times in all by refreshes.
func (r *replay) create(s *server, e *slot) (queued int, ok bool) {
	if r.whole && e.created || !r.whole && e.repeats == 0 {
		return 0, true
	}
	if s.put(&instruction{op: create, entity: e.entity}) == codec.ErrFull {
		return 0, false
	}
	e.created = true
	if !r.whole {
		e.repeats--
	}
	return 1, true
}

// component sends the present stage's instructions for a component.
func (r *replay) component(s *server, e *slot, c *component) (queued int, ok bool) {
	in := instruction{op: attach, entity: e.entity, component: c.id}
	if s.hides(&in) {
		return 0, true
	}
	if r.stage == attaches && r.attaches(s, c) {
		if s.put(&in) == codec.ErrFull {
			return 0, false
		}
		queued++
		if !r.whole {
			c.repeats--
		}
	}
	// A document's client gets the data right behind an attach, in the same datagram. So the component is never seen
	// without.
	if r.stage == updates && r.updates(c) || r.stage == attaches && queued > 0 && !r.whole && c.known {
		in.op, in.data = update, c.data
		if s.put(&in) == codec.ErrFull {
			return queued, false
		}
		queued++
	}
	if r.stage == updates {
		c.fresh = false
	}
	return queued, true
}

// attaches reports whether a component's attach is sent. The game's clients attach on an update, and an unneeded
// attach resets the component.
func (r *replay) attaches(s *server, c *component) bool {
	return r.whole || c.repeats > 0 && !c.own && (!c.known || s.format.document)
}

// updates reports whether a component's data is sent. A refresh leaves out data that was sent since the last refresh,
// and data of which the client has a newer version.
func (r *replay) updates(c *component) bool { return c.known && (r.whole || !c.own && !c.fresh) }
