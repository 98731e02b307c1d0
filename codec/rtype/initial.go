package rtype

import (
	"bytes"
	"slices"
)

// maxComponents bounds the components of a world. The bound also lets the parts of the game's initialisation identify
// themselves in any order.
const maxComponents = 255

// maxName bounds the length of a name, which the document writes as one byte.
const maxName = 255

// endOfNames ends the document's list of names.
const endOfNames = 0xffff

// initialisation names the components of a world. A component's ID is its position. The document's layout is:
//
//	0..1  count, big-endian
//	2     length L of a name
//	      count times L bytes: a name, padded with zeros
//	      ff ff
//
// docs/protocols/rtype/wire.md#initialisation
type initialisation struct {
	Names [][]byte `cbor:"1,keyasint,omitempty"` // nil: unknown
	Pad   int      `cbor:"2,keyasint,omitempty"` // L
	// Count is as the game's server wrote it, which repeats its parts. If 0, it is the number of names.
	Count int `cbor:"3,keyasint,omitempty"`
}

// parse reads the document's layout. The names are copies.
func (n *initialisation) parse(b []byte) (rest []byte, err error) {
	if len(b) < 3 {
		return nil, errNames
	}
	count, pad := int(be.Uint16(b)), int(b[2])
	all := count * pad
	if b = b[3:]; count > maxComponents || len(b) < all+2 || be.Uint16(b[all:]) != endOfNames {
		return nil, errNames
	}
	names := make([][]byte, count)
	for i := range names {
		name := bytes.TrimRight(b[i*pad:(i+1)*pad], "\x00")
		if !isName(name) {
			return nil, errNames
		}
		names[i] = bytes.Clone(name)
	}
	*n = initialisation{Names: names, Pad: pad}
	return b[all+2:], nil
}

// append appends the document's layout.
func (n *initialisation) append(b []byte) []byte {
	b = be.AppendUint16(b, uint16(len(n.Names)))
	b = append(b, byte(n.Pad))
	for _, name := range n.Names {
		b = append(b, name...)
		b = append(b, make([]byte, n.Pad-len(name))...)
	}
	return be.AppendUint16(b, endOfNames)
}

// len returns the number of bytes that append writes.
func (n *initialisation) len() int { return 3 + len(n.Names)*n.Pad + 2 }

// countOf returns the count that makes the game's clients accept the given number of copies. A client takes the first
// datagram for the count, the second for the length, and count more for names.
func (n *initialisation) countOf(copies int) int { return copies*(len(n.Names)+1) - 1 }

// parts returns the number of datagrams in the game's initialisation. If parts are copied, half as many fillers
// follow. Clients take them in place of lost parts. To a client that has lost nothing they are unknown instructions.
func (n *initialisation) parts(copies int) int {
	all := 2 + n.countOf(copies)
	if copies > 1 {
		all += all / 2
	}
	return all
}

// appendPart appends one datagram of the game's initialisation: the count, the length of the longest name, then each
// component's index and name. Names follow the copies of the count, one of which a client may take for a name.
func (n *initialisation) appendPart(b []byte, i int, era Era, copies int) []byte {
	switch {
	case i < copies:
		return be.AppendUint16(b, uint16(n.countOf(copies)))
	case i == copies:
		return appendIndex(b, n.Pad, era)
	case i < 2+n.countOf(copies):
		name := (i - copies - 1) % len(n.Names)
		return append(appendIndex(b, name, era), n.Names[name]...)
	}
	return append(appendIndex(b, filler, era), fillerName...)
}

// A filler belongs to no component: its index is neither an opcode nor a component's.
const (
	filler     = 255
	fillerName = "-"
)

// isFiller reports whether d is a filler.
func isFiller(d []byte) bool {
	return len(d) >= 2 && d[0] == filler && (string(d[1:]) == fillerName || d[1] == 0 && string(d[2:]) == fillerName)
}

// appendIndex appends a number below 256 in the era's form: late servers wrote two bytes of their own memory.
func appendIndex(b []byte, i int, era Era) []byte {
	b = append(b, byte(i))
	if era != Early {
		b = append(b, 0)
	}
	return b
}

// hasPart reports whether d is a datagram of the game's initialisation, of the early or the late era.
func (n *initialisation) hasPart(d []byte, era Era) bool {
	switch {
	case len(d) == 1:
		return era == Early && int(d[0]) == n.Pad
	case len(d) == 2 && (d[0] == 0 && int(d[1]) == max(n.Count, len(n.Names)) || int(d[0]) == n.Pad && d[1] == 0):
		return true
	case isFiller(d):
		return true
	case len(d) < 2 || int(d[0]) >= len(n.Names):
		return false
	}
	name := n.Names[d[0]]
	return bytes.Equal(d[1:], name) || d[1] == 0 && bytes.Equal(d[2:], name)
}

// equal reports whether both name the same components.
func (n *initialisation) equal(other *initialisation) bool {
	return n.known() && other.known() && n.Pad == other.Pad && slices.EqualFunc(n.Names, other.Names, bytes.Equal)
}

func (n *initialisation) known() bool { return n.Names != nil }

// isName reports whether b is a component's name: one or more of a-z, A-Z, 0-9, '-', '_' and '.'.
func isName(b []byte) bool {
	for _, c := range b {
		letter := c|0x20 >= 'a' && c|0x20 <= 'z'
		if !letter && (c < '0' || c > '9') && c != '-' && c != '_' && c != '.' {
			return false
		}
	}
	return len(b) > 0
}

// unknownSize is the size of a component that is not in the configuration.
const unknownSize = -1

// sizes holds the data size in bytes of each announced component, by ID. nil means that no announcement has arrived
// yet. Then any component may exist, with an unknown size.
type sizes []int

// sizesOf looks up the names in the configured ones.
func sizesOf(n *initialisation, configured map[string]int) sizes {
	s := make(sizes, len(n.Names))
	for i, name := range n.Names {
		size, ok := configured[string(name)]
		if !ok {
			size = unknownSize
		}
		s[i] = size
	}
	return s
}

// of returns the size of a component, or unknownSize.
func (s sizes) of(component uint16) (int, error) {
	switch {
	case s == nil:
		return unknownSize, nil
	case int(component) >= len(s):
		return 0, errComponent
	}
	return s[component], nil
}

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
