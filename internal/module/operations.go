package module

import (
	"encoding/binary"
	"fmt"
)

// Operations that matter to guard.
const (
	opLoop         = 0x03
	opCall         = 0x10
	opCallIndirect = 0x11
	opBranchTable  = 0x0e
	opSelectTyped  = 0x1c
	opMore         = 0xfc // followed by a number
	opVector       = 0xfd // followed by a number
)

// addChecks returns the code of a function with a check at the head of each loop, and whether it calls functions.
func addChecks(r reader, check []byte) (out []byte, calls bool, err error) {
	done := r.rest // not appended yet
	for len(r.rest) > 0 {
		op := r.byte()
		if !r.operands(op) {
			return nil, false, fmt.Errorf("%w, or it uses a proposal that this release does not know: operation %#x",
				errLayout, op)
		}
		switch op {
		case opCall, opCallIndirect:
			calls = true
		case opLoop:
			out = append(append(out, done[:len(done)-len(r.rest)]...), check...)
			done = r.rest
		}
	}
	return append(out, done...), calls, nil
}

// operands skips the operands of an operation. It reports false if it does not know the operation.
func (r *reader) operands(op byte) bool {
	switch {
	case op <= 0x01, op == 0x05, op == 0x0b, op == 0x0f, op == 0x1a, op == 0x1b, op >= 0x45 && op <= 0xc4, op == 0xd1:
	case op >= 0x02 && op <= 0x04, op == 0x41, op == 0xd0: // a type of a block, a constant, a type
		r.skip(binary.MaxVarintLen32)
	case op == 0x0c, op == 0x0d, op == opCall, op >= 0x20 && op <= 0x26, op == 0xd2:
		r.number()
	case op == opCallIndirect, op >= 0x28 && op <= 0x3e:
		r.number()
		r.number()
	case op == opBranchTable, op == opSelectTyped:
		n := r.number()
		for range n {
			if r.number(); r.failed {
				break
			}
		}
		if op == opBranchTable {
			r.number()
		}
	case op == 0x3f, op == 0x40: // the size of memory
		r.byte()
	case op == 0x42:
		r.skip(binary.MaxVarintLen64)
	case op == 0x43:
		r.bytes(4)
	case op == 0x44:
		r.bytes(8)
	case op == opMore:
		return r.more(r.number())
	case op == opVector:
		return r.vector(r.number())
	default:
		return false
	}
	return !r.failed
}

// more skips the operands of an operation on memory or tables, or of a conversion.
func (r *reader) more(op uint32) bool {
	switch {
	case op <= 7:
	case op == 9, op == 11, op == 13, op >= 15 && op <= 17:
		r.number()
	case op <= 14:
		r.number()
		r.number()
	default:
		return false
	}
	return !r.failed
}

// vector skips the operands of an operation on vectors.
func (r *reader) vector(op uint32) bool {
	switch {
	case op <= 11, op == 92, op == 93:
		r.number()
		r.number()
	case op == 12, op == 13:
		r.bytes(16)
	case op >= 21 && op <= 34:
		r.byte()
	case op >= 84 && op <= 91:
		r.number()
		r.number()
		r.byte()
	case op > 255:
		return false
	}
	return !r.failed
}

// reader reads the parts of a module.
type reader struct {
	rest   []byte
	failed bool
}

func (r *reader) byte() byte {
	if b := r.bytes(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) bytes(n uint32) []byte {
	if uint64(n) > uint64(len(r.rest)) {
		r.failed, r.rest = true, nil
		return nil
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

// number reads an unsigned number of 32 bits.
func (r *reader) number() uint32 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 || n > binary.MaxVarintLen32 || v > 1<<32-1 {
		r.failed, r.rest = true, nil
		return 0
	}
	r.rest = r.rest[n:]
	return uint32(v)
}

// skip skips a signed number of at most most bytes.
func (r *reader) skip(most int) {
	for range most {
		if r.byte() < 0x80 {
			return
		}
	}
	r.failed, r.rest = true, nil
}
