package rtype

// Messages cross the codec's contract in one spelling, whatever the dialect, so that each dialect bridges to each:
// instructions are those of the game with entities of 4 bytes, big-endian, and what is no instruction has a first byte
// that none has. docs/protocols/rtype.md#messages
const announced = 0xf0 // then era, width of entities, and the initialisation as the document has it

const (
	maxKey      = 0x0b
	announceLen = 3 // before the initialisation
)

// announcement is the canonical message that carries the initialisation, and tells what is known of the format.
type announcement struct {
	format  format
	initial initialisation
}

func (a *announcement) parse(b []byte) error {
	if len(b) < announceLen || b[0] != announced || b[1] > byte(Final) || b[2] != 0 && b[2] != 2 && b[2] != 4 {
		return errNames
	}
	a.format = format{era: Era(b[1]), width: b[2]}
	rest, err := a.initial.parse(b[announceLen:])
	if err == nil && len(rest) > 0 {
		return errNames
	}
	return err
}

func (a *announcement) append(b []byte) []byte {
	b = append(b, announced, byte(a.format.era), a.format.width)
	return a.initial.append(b)
}

// hasKeys reports whether a client's lone bytes are keys. While the era is not known they may be.
func (f *format) hasKeys() bool { return f.era == AnyEra || f.era == Early }
