package rtype

// A deletion is repeated with maxRepeats refreshes. The last maxDeletions of them are remembered.
const (
	maxDeletions = 1024
	maxRepeats   = 3
)

// deletionLog remembers the latest removes and detaches, so that a refresh can repeat them. Its ring is allocated with
// the first.
type deletionLog struct {
	ring []deletion
	next int
}

type deletion struct {
	_         struct{} `cbor:",toarray"`
	Op        opcode   // remove or detach
	Entity    uint32
	Component uint16
	Repeats   int // repeats left
}

// note records the deletion that an instruction is about to make in m. An entity's components are deleted with it. A
// client that misses the deletion must lose them when the entity is created again.
func (g *deletionLog) note(in *instruction, m *mirror) {
	switch in.op {
	case remove:
		g.add(deletion{Op: remove, Entity: in.entity})
		if s := m.slotOf(in.entity); s != nil {
			for i := range s.components {
				g.add(deletion{Op: detach, Entity: in.entity, Component: s.components[i].id})
			}
		}
	case detach:
		g.add(deletion{Op: detach, Entity: in.entity, Component: in.component})
	}
}

func (g *deletionLog) add(d deletion) {
	if g.ring == nil {
		g.ring = make([]deletion, maxDeletions)
	}
	d.Repeats = maxRepeats
	g.ring[g.next] = d
	g.next = (g.next + 1) % maxDeletions
}

// take returns the i-th deletion if it is to be repeated: a limited number of times, and only while it holds. There is
// no need to delete an object that exists again, or a component of an entity that does not exist.
func (g *deletionLog) take(i int, m *mirror) (instruction, bool) {
	d := &g.ring[i]
	holds := m.has(d.Entity) == (d.Op == detach) && !m.hasComponent(d.Entity, d.Component)
	if d.Repeats == 0 || !holds {
		return instruction{}, false
	}
	d.Repeats--
	return instruction{op: d.Op, entity: d.Entity, component: d.Component}, true
}
