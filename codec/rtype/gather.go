package rtype

import "bytes"

// gather collects the parts of the game's initialisation from its datagrams, which may arrive in any order:
//
//	early            late               final
//	count (2)        count (2)          06, count (2)          big-endian: 00 xx
//	length (1)       length (2)                                xx 00
//	index (1), name  index (2), name    05, index (2), name    little-endian: xx 00
//
// Each part identifies itself, since there are at most 255 components and no character of a name is zero. The names
// decide the era, because a lone byte may also be an instruction that has overtaken them. For the final game only the
// names decide, because its count may also be a late name. docs/protocols/rtype/wire.md#initialisation
type gather struct {
	era     Era
	counted bool
	count   int
	filled  bool // fillers have arrived: the count is that of several copies of the parts
	pad     int
	names   [][]byte // maxComponents of them, allocated with the first
	held    int      // bytes of memory
	full    bool     // no more names are kept
}

// nameCost is the memory in bytes of the place of a name.
const nameCost = 24

// take stores a datagram that is a missing part. It reports whether the datagram was one.
func (g *gather) take(d []byte) bool {
	switch {
	case g.era == Final || isLastName(d):
		return g.takeLast(d)
	case isFiller(d):
		g.filled = true
		return true
	case len(d) == 2 && d[0] == 0 && !g.counted:
		g.count, g.counted = int(d[1]), true
		return true
	case len(d) == 1:
		return g.takePad(d[0], Early)
	case len(d) == 2 && d[1] == 0:
		return g.takePad(d[0], Late)
	case len(d) >= 2 && isName(d[1:]):
		return g.takeName(d[0], d[1:], Early)
	case len(d) >= 3 && d[1] == 0 && isName(d[2:]):
		return g.takeName(d[0], d[2:], Late)
	}
	return false
}

func (g *gather) takePad(pad byte, era Era) bool {
	if pad == 0 || g.pad != 0 {
		return false
	}
	g.pad = int(pad)
	if g.era == AnyEra {
		g.era = era
	}
	return true
}

func (g *gather) takeName(index byte, name []byte, era Era) bool {
	i := int(index)
	if g.full || i >= maxComponents || g.counted && era != Final && i >= g.count || len(name) > maxName {
		return false
	}
	if g.names == nil {
		g.names = make([][]byte, maxComponents)
		g.held = maxComponents * nameCost
	}
	if g.names[i] != nil {
		return false
	}
	g.names[i] = bytes.Clone(name)
	g.held += len(name)
	g.era = era
	return true
}

// isLastName reports whether d names a component in the final game. The bytes behind its opcode are no name in the
// other games.
func isLastName(d []byte) bool { return len(d) > 3 && d[0] == nameOpcode && d[2] == 0 && isName(d[3:]) }

// takeLast stores a part of the final game. A later count replaces an earlier one.
func (g *gather) takeLast(d []byte) bool {
	switch {
	case isLastName(d):
		return g.takeName(d[1], d[3:], Final)
	case len(d) == 3 && d[0] == countOpcode && d[1] == 0:
		g.count, g.counted = int(d[2]), true
		return true
	}
	return false
}

// done returns the initialisation once all its parts have arrived.
func (g *gather) done() (initialisation, bool) {
	count := g.components()
	if !g.counted || g.pad == 0 && g.era != Final || count < 0 {
		return initialisation{}, false
	}
	n := initialisation{names: make([][]byte, count), pad: g.pad, count: g.count}
	if copy(n.names, g.names) < count {
		return initialisation{}, false
	}
	for _, name := range n.names {
		if name == nil {
			return initialisation{}, false
		}
		n.pad = max(n.pad, len(name))
	}
	return n, true
}

// components returns the number of components, or -1 if it is unknown. With copies, the count differs from the number
// of names.
func (g *gather) components() int {
	if !g.filled {
		return g.count
	}
	n := 0
	for n < len(g.names) && g.names[n] != nil {
		n++
	}
	if (g.count+1)%(n+1) != 0 {
		return -1
	}
	return n
}

// begun reports whether a part has arrived.
func (g *gather) begun() bool { return g.counted || g.pad != 0 || g.names != nil }
