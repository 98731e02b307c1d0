package rtype

// mirror is what a client should know of its server's world: entities, their components and the data of these. It
// follows the instructions that pass, and takes no more memory than its bound; what is beyond it is not mirrored, and
// so neither repaired nor told to a client that asks again.
type mirror struct {
	max, bytes int // memory; slots that are free count until they are used again
	slots      []slot
	free       []int // slots without an entity
	where      map[uint32]int
}

// slot holds one entity, or none. An entity keeps its slot, so that a walk over them meets each once.
type slot struct {
	entity     uint32
	alive      bool
	components []component // their data is reused
}

type component struct {
	id    uint16
	known bool // there has been an update
	data  []byte
}

// What slots and components cost, all that refers to them included.
const (
	slotCost      = 128
	componentCost = 40
)

// apply follows one instruction. Those of entities and components that are not known change nothing.
func (m *mirror) apply(in *instruction) {
	if in.op == create {
		m.create(in.entity)
		return
	}
	at, ok := m.where[in.entity]
	if !ok {
		return
	}
	s := &m.slots[at]
	switch in.op {
	case remove:
		s.alive, s.components = false, s.components[:0]
		m.free = append(m.free, at)
		delete(m.where, in.entity)
	case attach:
		if s.find(in.component) < 0 {
			m.attach(s, in.component)
		}
	case update:
		if i := s.find(in.component); i >= 0 {
			m.update(&s.components[i], in.data)
		}
	case detach:
		if i := s.find(in.component); i >= 0 {
			s.detach(i)
		}
	}
}

// has reports whether the entity exists, and hasComponent whether it has that component.
func (m *mirror) has(entity uint32) bool {
	_, ok := m.where[entity]
	return ok
}

func (m *mirror) hasComponent(entity uint32, id uint16) bool {
	at, ok := m.where[entity]
	return ok && m.slots[at].find(id) >= 0
}

// componentsOf are those of an entity, until the next change.
func (m *mirror) componentsOf(entity uint32) []component {
	if at, ok := m.where[entity]; ok {
		return m.slots[at].components
	}
	return nil
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
	m.slots[at].entity, m.slots[at].alive = entity, true
	m.where[entity] = at
}

func (m *mirror) attach(s *slot, id uint16) {
	n := len(s.components)
	if n == cap(s.components) {
		more := max(2, n)
		if !m.grow(more * componentCost) {
			return
		}
		s.components = append(make([]component, 0, n+more), s.components...)
	}
	s.components = s.components[:n+1]
	c := &s.components[n]
	c.id, c.known, c.data = id, false, c.data[:0]
}

func (m *mirror) update(c *component, data []byte) {
	if more := len(data) - cap(c.data); more > 0 {
		if !m.grow(more) {
			c.known = false
			return
		}
		c.data = make([]byte, 0, len(data))
	}
	c.data = append(c.data[:0], data...)
	c.known = true
}

// grow takes n bytes of the bound, if they are left.
func (m *mirror) grow(n int) bool {
	if m.bytes+n > m.max {
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
