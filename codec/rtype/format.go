package rtype

// format says how one connection writes its messages. The zero value is the game's, of unknown age.
type format struct {
	document bool // instructions follow each other without boundaries
	era      Era
	width    uint8 // bytes of an entity: 2, 4, or 0 if unknown
}

// isFinal reports whether the format is that of the last networked game, which has little-endian IDs.
func (f *format) isFinal() bool { return f.era == Final }

// isCanonical reports whether the format writes instructions in the canonical form.
func (f *format) isCanonical() bool {
	return f.entityWidth() == canonical.entityWidth() && !f.isFinal()
}

// canonical is the format of the messages that cross the codec's contract (docs/protocols/rtype/messages.md).
var canonical = format{width: 4}

// formats are the initial formats of the dialects; automatic dialects learn the rest.
var formats = [...]format{
	Auto:     {},
	Document: {document: true, era: Early, width: 2},
	Game16:   {era: Early, width: 2},
	Game32:   {era: Late, width: 4},
	GameLast: {era: Final, width: 4},
}

// entityWidth returns the width for writing entities. If it is unknown, it is that of the first game of the era.
func (f *format) entityWidth() int {
	switch {
	case f.width != 0:
		return int(f.width)
	case f.era == Early:
		return 2
	}
	return 4
}

// learn copies the facts from other that f does not know yet.
func (f *format) learn(other format) {
	if f.era == AnyEra {
		f.era = other.era
	}
	if f.width == 0 {
		f.width = other.width
	}
}

// widthOf returns the width of entities in an instruction that is alone in its datagram. It returns 0 for an update,
// which could have either width. docs/protocols/rtype.md#dialects
func widthOf(d []byte) uint8 {
	if len(d) == 0 {
		return 0
	}
	rest := len(d) - 1
	switch opcode(d[0]) {
	case attach, detach:
		rest -= 2
	case create, remove:
	default:
		return 0
	}
	if rest == 2 || rest == 4 {
		return uint8(rest)
	}
	return 0
}
