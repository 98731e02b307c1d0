package rtype

// format is how one connection spells its messages. The zero value is the game's, of unknown age.
type format struct {
	document bool // instructions follow each other without boundaries
	era      Era
	width    uint8 // bytes of an entity: 2, 4, or 0 while not known
}

// isFinal reports whether the format is that of the last networked game, whose IDs are little-endian.
func (f *format) isFinal() bool { return f.era == Final }

// isCanonical reports whether the format writes instructions as they cross the codec's contract.
func (f *format) isCanonical() bool {
	return f.entityWidth() == canonical.entityWidth() && !f.isFinal()
}

// canonical is the spelling of the messages that cross the codec's contract (docs/protocols/rtype.md#messages).
var canonical = format{width: 4}

// formats are what each dialect begins with; automatic ones learn the rest.
var formats = [...]format{
	Auto:     {},
	Document: {document: true, era: Early, width: 2},
	Game16:   {era: Early, width: 2},
	Game32:   {era: Late, width: 4},
	GameLast: {era: Final, width: 4},
}

// entityWidth is the width to write with. While it is not known it is that of the game as it was last.
func (f *format) entityWidth() int {
	if f.width == 0 {
		return 4
	}
	return int(f.width)
}

// learn takes from other what f does not know yet.
func (f *format) learn(other format) {
	if f.era == AnyEra {
		f.era = other.era
	}
	if f.width == 0 {
		f.width = other.width
	}
}

// widthOf tells the width of entities by an instruction that is alone in its datagram, or returns 0: an update could
// have either. docs/protocols/rtype.md#dialects
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
