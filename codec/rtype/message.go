package rtype

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"tidegate/codec"
)

// Messages cross the codec's contract in one canonical form, so that every dialect bridges to every other.
// Instructions are those of the game with entities of 4 bytes, big-endian. Other messages have a first byte that no
// instruction has. docs/protocols/rtype/messages.md
const announced = 0xf0 // then the era, the width of entities, and the initialisation in the document's layout

const (
	maxKey      = 0x0b
	announceLen = 3 // bytes before the initialisation
)

// announcement is the canonical message that carries the initialisation, and the known facts of the format.
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

// hasKeys reports whether a client's lone bytes are keys. They may be keys while the era is unknown.
func (f *format) hasKeys() bool { return f.era == AnyEra || f.era == Early }

// Errors of Receive and Send, in addition to the contract's own. They are made once, so that hostile input costs no
// memory.
var (
	errOpcode    = fmt.Errorf("%w: unknown instruction", codec.ErrMalformed)
	errLength    = fmt.Errorf("%w: instruction of a wrong length", codec.ErrMalformed)
	errComponent = fmt.Errorf("%w: component not announced", codec.ErrMalformed)
	errNames     = fmt.Errorf("%w: not a list of component names", codec.ErrMalformed)
	errEntity    = fmt.Errorf("%w: entity not sent to the client", codec.ErrMalformed)
	errWidth     = fmt.Errorf("%w: width of entities still unknown", codec.ErrUnexpected)
	errRate      = fmt.Errorf("%w: too many messages a second", codec.ErrLimit)
	errNoForm    = fmt.Errorf("%w: message has no form in this dialect and direction", codec.ErrMode)
)

// Texts of the game. No instruction begins with their first bytes. docs/protocols/rtype.md#session
var (
	ping    = []byte("ping")
	pong    = []byte("pong")
	goodbye = []byte("You have been disconnected :(")
)

// isGoodbye reports whether d is the server's goodbye. Some versions also send its terminating zero byte.
func isGoodbye(d []byte) bool { return bytes.Equal(bytes.TrimSuffix(d, []byte{0}), goodbye) }

// format says how one connection writes its messages. The zero value is the game's, of unknown age.
type format struct {
	document bool  `cbor:"4,keyasint,omitempty"` // instructions follow each other without boundaries
	era      Era   `cbor:"5,keyasint,omitempty"`
	width    uint8 `cbor:"6,keyasint,omitempty"` // bytes of an entity: 2, 4, or 0 if unknown
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

var (
	be = binary.BigEndian
	le = binary.LittleEndian
)

// opcode says how an instruction changes the world.
type opcode byte

const (
	create opcode = iota
	remove
	attach
	update
	detach

	nextFrame opcode = 0x0a // sent by late servers only
)

// maxNarrow is the largest entity that fits in 2 bytes.
const maxNarrow = 1<<16 - 1

// instruction is one change of the world. IDs are little-endian in the last game and big-endian elsewhere:
//
//	0       opcode
//	1..w    entity, w bytes: 2 or 4          not in nextFrame
//	2 more  component                        attach, update, detach
//	rest    the component's new data         update
//
// docs/protocols/rtype/wire.md#instructions
type instruction struct {
	op        opcode
	entity    uint32
	component uint16
	data      []byte // lent by the bytes it was parsed from
}

// parse reads the instruction at the start of b, and returns the rest of b. An update of a component with an unknown
// size takes all of b.
func (in *instruction) parse(b []byte, f *format, sizes sizes) (rest []byte, err error) {
	if len(b) == 0 {
		return nil, errLength
	}
	*in = instruction{op: opcode(b[0])}
	if in.op == nextFrame && !f.document {
		return b[1:], nil
	}
	if in.op > detach {
		return nil, errOpcode
	}
	width := f.entityWidth()
	if len(b) < headLen(in.op, width) {
		return nil, errLength
	}
	in.entity, rest = f.takeEntity(b[1:]), b[1+width:]
	if in.op < attach {
		return rest, nil
	}
	in.component, rest = f.takeComponent(rest), rest[2:]
	if in.op != update {
		_, err = sizes.of(in.component)
		return rest, err
	}
	return in.parseData(rest, sizes)
}

// parseData reads an update's data.
func (in *instruction) parseData(b []byte, sizes sizes) (rest []byte, err error) {
	size, err := sizes.of(in.component)
	if err != nil {
		return nil, err
	}
	if size == unknownSize {
		size = len(b)
	}
	if len(b) < size {
		return nil, errLength
	}
	in.data = b[:size]
	return b[size:], nil
}

// parseAlone parses an instruction that fills b.
func (in *instruction) parseAlone(b []byte, f *format, sizes sizes) error {
	rest, err := in.parse(b, f, sizes)
	if err == nil && len(rest) > 0 {
		return errLength
	}
	return err
}

// append appends the instruction. Its entity must fit the format's width.
func (in *instruction) append(b []byte, f *format) []byte {
	b = append(b, byte(in.op))
	if in.op == nextFrame {
		return b
	}
	switch {
	case f.entityWidth() == 2:
		b = be.AppendUint16(b, uint16(in.entity))
	case f.isFinal():
		b = le.AppendUint32(b, in.entity)
	default:
		b = be.AppendUint32(b, in.entity)
	}
	switch {
	case in.op < attach:
		return b
	case f.isFinal():
		b = le.AppendUint16(b, in.component)
	default:
		b = be.AppendUint16(b, in.component)
	}
	return append(b, in.data...)
}

// len returns the number of bytes that append writes.
func (in *instruction) len(width int) int {
	if in.op == nextFrame {
		return 1
	}
	return headLen(in.op, width) + len(in.data)
}

// headLen returns the length of an instruction without data.
func headLen(op opcode, width int) int {
	if op >= attach {
		return 1 + width + 2
	}
	return 1 + width
}

func (f *format) takeEntity(b []byte) uint32 {
	switch {
	case f.entityWidth() == 2:
		return uint32(be.Uint16(b))
	case f.isFinal():
		return le.Uint32(b)
	}
	return be.Uint32(b)
}

func (f *format) takeComponent(b []byte) uint16 {
	if f.isFinal() {
		return le.Uint16(b)
	}
	return be.Uint16(b)
}
