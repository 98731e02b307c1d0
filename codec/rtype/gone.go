package rtype

// A deletion is repeated with maxRepeats refreshes, and the last maxGone of them are remembered.
const (
	maxGone    = 256
	maxRepeats = 3
)

// gone remembers the latest removes and detaches, so that a refresh can repeat them. It is a ring, made with the first.
type gone struct {
	ring []deletion
	next int
}

type deletion struct {
	instruction
	repeats int // yet to come
}

// note remembers a deletion.
func (g *gone) note(in *instruction) {
	if in.op != remove && in.op != detach {
		return
	}
	if g.ring == nil {
		g.ring = make([]deletion, maxGone)
	}
	g.ring[g.next] = deletion{*in, maxRepeats}
	g.next = (g.next + 1) % maxGone
}

// take returns the i-th deletion if it is to be repeated: not too often, and not what exists again.
func (g *gone) take(i int, m *mirror) (instruction, bool) {
	d := &g.ring[i]
	if d.repeats == 0 {
		return instruction{}, false
	}
	d.repeats--
	if m.has(d.entity) && (d.op == remove || m.hasComponent(d.entity, d.component)) {
		d.repeats = 0
		return instruction{}, false
	}
	return d.instruction, true
}
