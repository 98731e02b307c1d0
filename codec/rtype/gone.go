package rtype

// A deletion is repeated with maxRepeats refreshes, and the last maxGone of them are remembered.
const (
	maxGone    = 1024
	maxRepeats = 3
)

// gone remembers the latest removes and detaches, so that a refresh can repeat them. It is a ring, made with the first.
type gone struct {
	ring []deletion
	next int
}

type deletion struct {
	op        opcode // remove or detach
	entity    uint32
	component uint16
	repeats   int // yet to come
}

// note remembers what an instruction is about to delete from m. An entity's components go with it: a client that has
// missed this must lose them when the entity is created again.
func (g *gone) note(in *instruction, m *mirror) {
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

func (g *gone) add(d deletion) {
	if g.ring == nil {
		g.ring = make([]deletion, maxGone)
	}
	d.repeats = maxRepeats
	g.ring[g.next] = d
	g.next = (g.next + 1) % maxGone
}

// take returns the i-th deletion if it is to be repeated: not too often, and only while it holds. What exists again, or
// did belong to an entity that does not exist, need not be deleted now.
func (g *gone) take(i int, m *mirror) (instruction, bool) {
	d := &g.ring[i]
	holds := m.has(d.entity) == (d.op == detach) && !m.hasComponent(d.entity, d.component)
	if d.repeats == 0 || !holds {
		return instruction{}, false
	}
	d.repeats--
	return instruction{op: d.op, entity: d.entity, component: d.component}, true
}
