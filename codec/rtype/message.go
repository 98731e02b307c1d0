package rtype

// Messages cross the codec's contract in one spelling, whatever the dialect, so that each dialect bridges to each:
// instructions are those of the game with entities of 4 bytes, and what is no instruction has a first byte that none
// has. docs/protocols/rtype.md#messages
const (
	request   = 0x10 // plus 0 to 2: component list, ignore a component, start the game
	announced = 0xf0 // then era, width of entities, and the initialisation as the document has it
)

const (
	maxKey      = 0x0b
	maxRequest  = 2
	announceLen = 3 // before the initialisation
)

// announcement is the canonical message that carries the initialisation, and tells what is known of the format.
type announcement struct {
	format  format
	initial initialisation
}

func (a *announcement) parse(b []byte) error {
	if len(b) < announceLen || b[0] != announced || b[1] > byte(Late) || b[2] != 0 && b[2] != 2 && b[2] != 4 {
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

// inputOf is the canonical form of a client's lone byte.
func inputOf(b byte, f *format) (canonical byte, err error) {
	switch {
	case f.era == Late && b <= maxRequest:
		return request + b, nil
	case f.era != Late && b <= maxKey:
		return b, nil
	}
	return 0, errOpcode
}

// byteOf is the lone byte of a client's canonical message of one byte. While the era is not known both kinds may be.
func byteOf(canonical byte, f *format) (b byte, err error) {
	switch {
	case f.era != Late && canonical <= maxKey:
		return canonical, nil
	case f.era != Early && canonical >= request && canonical <= request+maxRequest:
		return canonical - request, nil
	}
	return 0, errNoForm
}
