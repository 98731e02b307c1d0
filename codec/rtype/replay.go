package rtype

import (
	"time"

	"tidegate/codec"
)

// A replay goes out in portions, so that neither the client nor the path to it is swamped.
const (
	portion     = 32 // instructions, or all of one entity's if those are more
	portionGap  = 20 * time.Millisecond
	minReplayed = time.Second // between two replays that a client asks for
)

// stage is how far a replay has come. The game's server tells a new client in this order.
type stage uint8

const (
	creates stage = iota
	attaches
	updates
	deletions
	replayed
)

// replay walks over a mirror and what is gone from it. A whole one tells a client that knows nothing the world, as the
// game's server does; any other is a refresh, which repairs losses and repeats no more than that needs.
type replay struct {
	whole bool
	stage stage
	at    int       // the next slot, or deletion
	next  time.Time // when the next portion is due; zero: never
}

// portion puts one portion on the server's link, as far as there is room, and reports whether the replay is over.
func (r *replay) portion(s *server) (over bool) {
	for n := 0; r.stage != replayed; {
		all := len(s.mirror.slots)
		if r.stage == deletions {
			all = len(s.gone.ring)
		}
		if r.at == all || r.stage == deletions && r.whole {
			r.stage, r.at = r.stage+1, 0
			continue
		}
		if n >= portion {
			return false
		}
		told, ok := r.tell(s)
		if !ok {
			return false
		}
		r.at++
		n += told
	}
	return true
}

// tell puts what the present stage says of one slot or deletion. Not ok means that there is no room for it.
func (r *replay) tell(s *server) (told int, ok bool) {
	if r.stage == deletions {
		in, due := s.gone.take(r.at, &s.mirror)
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
		if told += n; !ok {
			return told, false
		}
	}
	return told, true
}

// create tells an entity: once in a whole replay, and a few times in all by refreshes.
func (r *replay) create(s *server, e *slot) (told int, ok bool) {
	if r.whole && e.told || !r.whole && e.repeats == 0 {
		return 0, true
	}
	if s.put(&instruction{op: create, entity: e.entity}) == codec.ErrFull {
		return 0, false
	}
	e.told = true
	if !r.whole {
		e.repeats--
	}
	return 1, true
}

// component tells what the present stage says of a component.
func (r *replay) component(s *server, e *slot, c *component) (told int, ok bool) {
	in := instruction{op: attach, entity: e.entity, component: c.id}
	if s.hides(&in) {
		return 0, true
	}
	if r.stage == attaches && r.attaches(s, c) {
		if s.put(&in) == codec.ErrFull {
			return 0, false
		}
		told++
		if !r.whole {
			c.repeats--
		}
	}
	// A document's client gets the data right behind an attach, in the same datagram: nobody sees the component without.
	if r.stage == updates && r.updates(c) || r.stage == attaches && told > 0 && !r.whole && c.known {
		in.op, in.data = update, c.data
		if s.put(&in) == codec.ErrFull {
			return told, false
		}
		told++
	}
	if r.stage == updates {
		c.fresh = false
	}
	return told, true
}

// attaches reports whether a component's attach is told: the game's clients attach by updates, and one too many resets
// the component.
func (r *replay) attaches(s *server, c *component) bool {
	return r.whole || c.repeats > 0 && !c.own && (!c.known || s.format.document)
}

// updates reports whether a component's data is told. A refresh leaves out what was sent since the last one, and what
// the client knows better.
func (r *replay) updates(c *component) bool { return c.known && (r.whole || !c.own && !c.fresh) }
