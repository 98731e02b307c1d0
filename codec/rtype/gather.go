package rtype

import "bytes"

// gather puts the game's initialisation together from its datagrams, which may come in any order:
//
//	early            late
//	count (2)        count (2)              big-endian: 00 xx
//	length (1)       length (2)             xx 00
//	index (1), name  index (2), name        little-endian: xx 00
//
// Each part says which one it is, since there are at most 255 components and no character of a name is zero. The names
// have the last word on the era: a lone byte may also be an instruction that has overtaken them.
// docs/protocols/rtype.md#initialisation
type gather struct {
	era     Era
	counted bool
	count   int
	pad     int
	names   [][]byte // maxComponents of them, made with the first
}

// take takes a datagram that is a part still missing, and reports whether it was one.
func (g *gather) take(d []byte) bool {
	switch {
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
	if i >= maxComponents || g.counted && i >= g.count || len(name) > maxName {
		return false
	}
	if g.names == nil {
		g.names = make([][]byte, maxComponents)
	}
	if g.names[i] != nil {
		return false
	}
	g.names[i] = bytes.Clone(name)
	g.era = era
	return true
}

// done returns the initialisation once all its parts are there.
func (g *gather) done() (initialisation, bool) {
	if !g.counted || g.pad == 0 {
		return initialisation{}, false
	}
	n := initialisation{names: make([][]byte, g.count), pad: g.pad}
	if copy(n.names, g.names) < g.count {
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

// begun reports whether a part has come.
func (g *gather) begun() bool { return g.counted || g.pad != 0 || g.names != nil }
