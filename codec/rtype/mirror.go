package rtype

import (
	"slices"
	"time"

	"tidegate/codec"
)

// mirror is the state that a client should know of its server's world: entities, their components and the components'
// data. It follows the instructions that pass, within its memory bound. An object beyond the bound is not mirrored. It
// is neither repaired nor sent to a client that asks again.
type mirror struct {
	max, bytes int  // memory; free slots count until they are used again
	overflowed bool `cbor:"11,keyasint,omitempty"` // an object was once not mirrored
	slots      []slot
	free       []int // slots without an entity
	where      map[uint32]int
}

// slot holds one entity, or none. An entity keeps its slot, so that a walk over the slots meets each entity once.
type slot struct {
	entity  uint32 `cbor:"1,keyasint,omitempty"`
	alive   bool   `cbor:"2,keyasint,omitempty"`
	created bool   `cbor:"3,keyasint,omitempty"` // the client was sent its create since the last replay began
	// repeats are those left of its create: each unneeded one leaks an entity in the client.
	repeats    uint8       `cbor:"4,keyasint,omitempty"`
	components []component // their data is reused
}

type component struct {
	id      uint16
	known   bool  // an update has followed the attach
	fresh   bool  // an update has followed the last refresh
	own     bool  // the client's update is newer than the server's
	repeats uint8 // repeats left of its attach: each one resets the component
	data    []byte
}

// Memory in bytes for a slot and a component, with all references to them.
const (
	slotCost      = 128
	componentCost = 40
)

// apply applies one instruction of the server, as the game's clients do. An update attaches a missing component, and
// an attach resets an existing one. An instruction for an unknown entity changes nothing.
func (m *mirror) apply(in *instruction) {
	if in.op == create {
		m.create(in.entity)
		return
	}
	s := m.slotOf(in.entity)
	if s == nil {
		return
	}
	switch in.op {
	case remove:
		m.free = append(m.free, m.where[in.entity])
		delete(m.where, in.entity)
		s.alive, s.components = false, s.components[:0]
	case attach:
		m.attach(s, in.component)
	case update:
		m.update(s, in)
	case detach:
		if i := s.find(in.component); i >= 0 {
			s.detach(i)
		}
	}
}

// markOwn records that the client updates a component itself, and reports whether the entity exists. The server decides
// whether it accepts the update.
func (m *mirror) markOwn(in *instruction) bool {
	s := m.slotOf(in.entity)
	if s == nil {
		return false
	}
	if i := s.find(in.component); i >= 0 {
		s.components[i].own = true
	}
	return true
}

// slotOf returns an entity's slot, or nil. The slot is valid until the next change.
func (m *mirror) slotOf(entity uint32) *slot {
	if at, ok := m.where[entity]; ok {
		return &m.slots[at]
	}
	return nil
}

// has reports whether the entity exists, and hasComponent whether it has that component.
func (m *mirror) has(entity uint32) bool { return m.slotOf(entity) != nil }

func (m *mirror) hasComponent(entity uint32, id uint16) bool {
	s := m.slotOf(entity)
	return s != nil && s.find(id) >= 0
}

// forgetSent starts a new record of the entities sent to the client.
func (m *mirror) forgetSent() {
	for i := range m.slots {
		m.slots[i].created = false
	}
}

func (m *mirror) create(entity uint32) {
	if m.has(entity) {
		return
	}
	at := len(m.slots)
	if n := len(m.free); n > 0 {
		at, m.free = m.free[n-1], m.free[:n-1]
	} else if !m.grow(slotCost) {
		return
	} else {
		m.slots = append(m.slots, slot{})
	}
	if m.where == nil {
		m.where = make(map[uint32]int)
	}
	s := &m.slots[at]
	s.entity, s.alive, s.created, s.repeats = entity, true, false, maxRepeats
	m.where[entity] = at
}

// attach adds a component without data, or removes the data of an existing one.
func (m *mirror) attach(s *slot, id uint16) *component {
	if i := s.find(id); i >= 0 {
		s.components[i].reset()
		return &s.components[i]
	}
	n := len(s.components)
	if n == cap(s.components) {
		more := max(2, n)
		if !m.grow(more * componentCost) {
			return nil
		}
		s.components = append(make([]component, 0, n+more), s.components...)
	}
	s.components = s.components[:n+1]
	c := &s.components[n]
	c.id = id
	c.reset()
	return c
}

func (c *component) reset() {
	c.known, c.fresh, c.own, c.repeats, c.data = false, false, false, maxRepeats, c.data[:0]
}

// update stores the data of a component, and attaches the component if it is missing.
func (m *mirror) update(s *slot, in *instruction) {
	var c *component
	if i := s.find(in.component); i >= 0 {
		c = &s.components[i]
	} else if c = m.attach(s, in.component); c == nil {
		return
	}
	if more := len(in.data) - cap(c.data); more > 0 {
		if !m.grow(more) {
			c.known = false
			return
		}
		c.data = make([]byte, 0, len(in.data))
	}
	c.data = append(c.data[:0], in.data...)
	c.known, c.fresh, c.own = true, true, false
}

// grow takes n bytes of the bound, if they are left.
func (m *mirror) grow(n int) bool {
	if m.bytes+n > m.max {
		m.overflowed = true
		return false
	}
	m.bytes += n
	return true
}

// find returns the place of a component, or -1.
func (s *slot) find(id uint16) int {
	return slices.IndexFunc(s.components, func(c component) bool { return c.id == id })
}

// detach removes component i. Its memory moves behind the others, for reuse.
func (s *slot) detach(i int) {
	gone := s.components[i]
	n := copy(s.components[i:], s.components[i+1:])
	s.components[i+n] = gone
	s.components = s.components[:i+n]
}

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
	whole bool      `cbor:"14,keyasint,omitempty"`
	stage stage     `cbor:"15,keyasint,omitempty"`
	at    int       `cbor:"16,keyasint,omitempty"` // next slot or deletion
	next  time.Time `cbor:"17,keyasint,omitempty"` // when the next portion is due; zero: never
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
