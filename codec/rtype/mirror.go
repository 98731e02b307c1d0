package rtype

// mirror is what a client should know of its server's world: entities, their components and the data of these. It
// follows the instructions that pass, and takes no more memory than its bound; what is beyond it is not mirrored, and
// so neither repaired nor told to a client that asks again.
type mirror struct {
	max, bytes int  // memory; slots that are free count until they are used again
	overflowed bool // something was not mirrored, once
	slots      []slot
	free       []int // slots without an entity
	where      map[uint32]int
}

// slot holds one entity, or none. An entity keeps its slot, so that a walk over them meets each once.
type slot struct {
	entity     uint32
	alive      bool
	told       bool        // the client was sent its create since the last replay began
	repeats    uint8       // of its create, yet to come: each one that the client did not need leaks an entity there
	components []component // their data is reused
}

type component struct {
	id      uint16
	known   bool  // there has been an update since it was attached
	fresh   bool  // there has been one since the last refresh
	own     bool  // the client has updated it since the server did
	repeats uint8 // of its attach, yet to come: each one resets the component
	data    []byte
}

// What slots and components cost, all that refers to them included.
const (
	slotCost      = 128
	componentCost = 40
)

// apply follows one instruction of the server's, as the game's clients do: an update attaches a component that is
// missing, and an attach resets one that is there. Instructions for entities that are not known change nothing.
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

// yield notes that the client updates a component itself, and reports whether there is such an entity. The server has
// the last word on what it takes of that.
func (m *mirror) yield(in *instruction) bool {
	s := m.slotOf(in.entity)
	if s == nil {
		return false
	}
	if i := s.find(in.component); i >= 0 {
		s.components[i].own = true
	}
	return true
}

// slotOf is an entity's slot until the next change, or nil.
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

// untell begins anew with what the client was told.
func (m *mirror) untell() {
	for i := range m.slots {
		m.slots[i].told = false
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
	s.entity, s.alive, s.told, s.repeats = entity, true, false, maxRepeats
	m.where[entity] = at
}

// attach adds a component without data, or takes the data from one that is there.
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

// update takes the data of a component, which it attaches if need be.
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

// find is the place of a component, or -1.
func (s *slot) find(id uint16) int {
	for i := range s.components {
		if s.components[i].id == id {
			return i
		}
	}
	return -1
}

// detach takes out component i. Its memory goes behind the others, to be used again.
func (s *slot) detach(i int) {
	gone := s.components[i]
	n := copy(s.components[i:], s.components[i+1:])
	s.components[i+n] = gone
	s.components = s.components[:i+n]
}
