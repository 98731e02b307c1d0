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
	op        opcode // remove or detach
	entity    uint32
	component uint16
	repeats   int // repeats left
}

// note records the deletion that an instruction is about to make in m. An entity's components are deleted with it. A
// client that misses the deletion must lose them when the entity is created again.
func (g *deletionLog) note(in *instruction, m *mirror) {
	switch in.op {
	case remove:
		g.add(deletion{op: remove, entity: in.entity})
		if s := m.slotOf(in.entity); s != nil {
			for i := range s.components {
				g.add(deletion{op: detach, entity: in.entity, component: s.components[i].id})
			}
		}
	case detach:
		g.add(deletion{op: detach, entity: in.entity, component: in.component})
	}
}

func (g *deletionLog) add(d deletion) {
	if g.ring == nil {
		g.ring = make([]deletion, maxDeletions)
	}
	d.repeats = maxRepeats
	g.ring[g.next] = d
	g.next = (g.next + 1) % maxDeletions
}

// take returns the i-th deletion if it is to be repeated: a limited number of times, and only while it holds. There is
// no need to delete an object that exists again, or a component of an entity that does not exist.
func (g *deletionLog) take(i int, m *mirror) (instruction, bool) {
	d := &g.ring[i]
	holds := m.has(d.entity) == (d.op == detach) && !m.hasComponent(d.entity, d.component)
	if d.repeats == 0 || !holds {
		return instruction{}, false
	}
	d.repeats--
	return instruction{op: d.op, entity: d.entity, component: d.component}, true
}
