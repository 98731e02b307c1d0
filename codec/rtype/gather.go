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
	Era     Era  `cbor:"1,keyasint,omitempty"`
	Counted bool `cbor:"2,keyasint,omitempty"`
	Count   int  `cbor:"3,keyasint,omitempty"`
	// Filled says that fillers have arrived. So the count is that of several copies of the parts.
	Filled bool     `cbor:"4,keyasint,omitempty"`
	Pad    int      `cbor:"5,keyasint,omitempty"`
	Names  [][]byte `cbor:"6,keyasint,omitempty"` // maxComponents of them, allocated with the first
	held   int      // bytes of memory
	full   bool     // no more names are kept
}

// nameCost is the memory in bytes of the place of a name.
const nameCost = 24

// take stores a datagram that is a missing part. It reports whether the datagram was one.
func (g *gather) take(d []byte) bool {
	switch {
	case g.Era == Final || isLastName(d):
		return g.takeLast(d)
	case isFiller(d):
		g.Filled = true
		return true
	case len(d) == 2 && d[0] == 0 && !g.Counted:
		g.Count, g.Counted = int(d[1]), true
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
	if pad == 0 || g.Pad != 0 {
		return false
	}
	g.Pad = int(pad)
	if g.Era == AnyEra {
		g.Era = era
	}
	return true
}

func (g *gather) takeName(index byte, name []byte, era Era) bool {
	i := int(index)
	if g.full || i >= maxComponents || g.Counted && era != Final && i >= g.Count || len(name) > maxName {
		return false
	}
	if g.Names == nil {
		g.Names = make([][]byte, maxComponents)
		g.held = maxComponents * nameCost
	}
	if g.Names[i] != nil {
		return false
	}
	g.Names[i] = bytes.Clone(name)
	g.held += len(name)
	g.Era = era
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
		g.Count, g.Counted = int(d[2]), true
		return true
	}
	return false
}

// done returns the initialisation once all its parts have arrived.
func (g *gather) done() (initialisation, bool) {
	count := g.components()
	if !g.Counted || g.Pad == 0 && g.Era != Final || count < 0 {
		return initialisation{}, false
	}
	n := initialisation{Names: make([][]byte, count), Pad: g.Pad, Count: g.Count}
	if copy(n.Names, g.Names) < count {
		return initialisation{}, false
	}
	for _, name := range n.Names {
		if name == nil {
			return initialisation{}, false
		}
		n.Pad = max(n.Pad, len(name))
	}
	return n, true
}

// components returns the number of components, or -1 if it is unknown. With copies, the count differs from the number
// of names.
func (g *gather) components() int {
	if !g.Filled {
		return g.Count
	}
	n := 0
	for n < len(g.Names) && g.Names[n] != nil {
		n++
	}
	if (g.Count+1)%(n+1) != 0 {
		return -1
	}
	return n
}

// begun reports whether a part has arrived.
func (g *gather) begun() bool { return g.Counted || g.Pad != 0 || g.Names != nil }
