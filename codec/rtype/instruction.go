package rtype

import "encoding/binary"

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
