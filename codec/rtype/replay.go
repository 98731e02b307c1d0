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

// replay walks over a mirror and what is gone from it, to tell a client the state of its world once more.
type replay struct {
	stage stage
	at    int       // the next slot, or deletion
	next  time.Time // when the next portion is due; zero: never
}

// begin starts from the beginning.
func (r *replay) begin(now time.Time) { *r = replay{next: now} }

// portion puts one portion on the link, as far as there is room, and reports whether the replay is over.
func (r *replay) portion(l *link, m *mirror, g *gone) (over bool) {
	for n := 0; r.stage != replayed; {
		if r.stage == deletions && r.at == len(g.ring) || r.stage < deletions && r.at == len(m.slots) {
			r.stage, r.at = r.stage+1, 0
			continue
		}
		if n >= portion {
			return false
		}
		told, ok := r.tell(l, m, g)
		if !ok {
			return false
		}
		r.at++
		n += told
	}
	return true
}

// tell puts what the present stage says of one slot or deletion. Not ok means that there is no room for it.
func (r *replay) tell(l *link, m *mirror, g *gone) (told int, ok bool) {
	if r.stage == deletions {
		in, due := g.take(r.at, m)
		if !due {
			return 0, true
		}
		return 1, l.put(&in) != codec.ErrFull
	}
	s := &m.slots[r.at]
	switch {
	case !s.alive:
		return 0, true
	case r.stage == creates:
		return 1, l.put(&instruction{op: create, entity: s.entity}) != codec.ErrFull
	}
	for i := range s.components {
		c := &s.components[i]
		in := instruction{op: attach, entity: s.entity, component: c.id}
		if r.stage == updates {
			in.op, in.data = update, c.data
		}
		if (r.stage == attaches || c.known) && l.put(&in) == codec.ErrFull {
			return i, false
		}
	}
	return len(s.components), true
}
