package riptide

import (
	"encoding/binary"
	"math"
)

// Reader reads the values of a message payload, which it keeps but never changes. Its methods are named as the types are
// in C#. From the first error on, which Err and Finish tell, values mean nothing, and lengths are 0.
type Reader struct {
	version Version
	pad     uint8
	payload []byte
	at, end int // in bits
	err     error
}

// NewReader returns a Reader of the payload of a codec.Message less the last pad bits. Riptide 2.0 ignores pad.
func NewReader(v Version, payload []byte, pad uint8) Reader {
	r := Reader{version: v, payload: payload, end: 8 * len(payload)}
	if v == V20 {
		return r
	}
	if len(payload) > 0 {
		r.pad = pad & 7
	}
	// A datagram of Riptide 2.1+ ends on a whole byte, half a byte off the payload's. The zero bits up to there are
	// not in the payload, yet may be the last values: nobody can tell them from padding.
	r.end = (r.end-int(r.pad)+typeBits+7)&^7 - typeBits
	return r
}

// typeBits is the size of the type in front of every body of Riptide 2.1+.
const typeBits = 4

// Err is the first error so far: ErrShort, ErrVarint or ErrDialect.
func (r *Reader) Err() error { return r.err }

// Finish returns the first error, or ErrTrailing if more than padding is left.
func (r *Reader) Finish() error {
	left := r.end - r.at
	if left >= 8 || r.fixed(left) != 0 {
		r.fail(ErrTrailing)
	}
	return r.err
}

// Byte reads a byte.
func (r *Reader) Byte() uint8 { return uint8(r.fixed(8)) }

// SByte reads an sbyte.
func (r *Reader) SByte() int8 { return int8(r.fixed(8)) }

// Short reads a short.
func (r *Reader) Short() int16 { return int16(r.fixed(16)) }

// UShort reads a ushort.
func (r *Reader) UShort() uint16 { return uint16(r.fixed(16)) }

// Int reads an int.
func (r *Reader) Int() int32 { return int32(r.fixed(32)) }

// UInt reads a uint.
func (r *Reader) UInt() uint32 { return uint32(r.fixed(32)) }

// Long reads a long.
func (r *Reader) Long() int64 { return int64(r.fixed(64)) }

// ULong reads a ulong.
func (r *Reader) ULong() uint64 { return r.fixed(64) }

// Float reads a float.
func (r *Reader) Float() float32 { return math.Float32frombits(r.UInt()) }

// Double reads a double.
func (r *Reader) Double() float64 { return math.Float64frombits(r.ULong()) }

// Vector2 reads x and y.
func (r *Reader) Vector2() Vector2 { return Vector2{r.Float(), r.Float()} }

// Vector3 reads x, y and z.
func (r *Reader) Vector3() Vector3 { return Vector3{r.Float(), r.Float(), r.Float()} }

// Quaternion reads x, y, z and w.
func (r *Reader) Quaternion() Quaternion {
	return Quaternion{r.Float(), r.Float(), r.Float(), r.Float()}
}

// Bool reads a bool. In Riptide 2.0 it is a byte, and true if that is 1.
func (r *Reader) Bool() bool {
	if r.version == V20 {
		return r.Byte() == 1
	}
	return r.fixed(1) == 1
}

// Bools reads the elements of a bool array, which in Riptide 2.0 are eight to a byte.
func (r *Reader) Bools(elements []bool) {
	for i := range elements {
		elements[i] = r.fixed(1) == 1
	}
	r.align()
}

// Bits reads n bits, 1 to 64, the lowest first. Riptide 2.1+.
func (r *Reader) Bits(n int) uint64 {
	if r.version == V20 {
		r.fail(ErrDialect)
		return 0
	}
	return r.fixed(n)
}

// VarULong reads an unsigned number of variable length. Of the tenth byte, which is its longest, only the lowest bit
// counts. Riptide 2.1+.
func (r *Reader) VarULong() uint64 {
	var v uint64
	for n := range binary.MaxVarintLen64 {
		x := r.Bits(8)
		v |= x & 0x7f << (7 * n)
		if x < 0x80 {
			return v
		}
	}
	r.fail(ErrVarint)
	return 0
}

// VarLong reads a signed number of variable length. Riptide 2.1+.
func (r *Reader) VarLong() int64 {
	v := r.VarULong()
	return int64(v>>1) ^ -int64(v&1)
}

// Length reads the length of an array whose elements have at least the given number of bits each, so 1 for bools and 8
// for strings. More elements than the payload can hold are ErrShort: the caller may allocate what Length returns.
func (r *Reader) Length(elementBits int) int {
	var n uint64
	if r.version != V20 {
		n = r.VarULong()
	} else if n = r.fixed(8); n > shortLength {
		n = n&^longLength<<8 | r.fixed(8)
	}
	if n > uint64((r.end-r.at)/elementBits) {
		r.fail(ErrShort)
	}
	if r.err != nil {
		return 0
	}
	return int(n)
}

// AppendString reads a string and appends its UTF-8 bytes to b, as the peer wrote them: they may be no valid UTF-8.
func (r *Reader) AppendString(b []byte) []byte { return r.AppendBytes(b, r.Length(8)) }

// AppendBytes reads the elements of a byte array of length n and appends them to b.
func (r *Reader) AppendBytes(b []byte, n int) []byte {
	if !r.has(8 * min(n, len(r.payload)+1)) { // 8*n may be too large for an int
		return b
	}
	for ; n >= 8; n -= 8 {
		b = binary.LittleEndian.AppendUint64(b, r.fixed(64))
	}
	for ; n > 0; n-- {
		b = append(b, r.Byte())
	}
	return b
}

// fixed reads n bits, up to 64, the lowest first.
func (r *Reader) fixed(n int) uint64 {
	if !r.has(n) {
		return 0
	}
	i, shift := r.at/8, r.at%8
	r.at += n
	x := r.word(i) >> shift
	if shift+n > 64 {
		x |= uint64(r.byteAt(i+8)) << (64 - shift)
	}
	return x << (64 - n) >> (64 - n)
}

// has reports whether n more bits can be read, and fails if not.
func (r *Reader) has(n int) bool {
	if n > r.end-r.at {
		r.fail(ErrShort)
	}
	return r.err == nil
}

// word is the eight bytes from i on.
func (r *Reader) word(i int) uint64 {
	if i+8 < len(r.payload) { // not the last byte, which may have padding
		return binary.LittleEndian.Uint64(r.payload[i:])
	}
	var x uint64
	for k := range 8 {
		x |= uint64(r.byteAt(i+k)) << (8 * k)
	}
	return x
}

// byteAt is byte i of the payload without padding. There are zeros behind it.
func (r *Reader) byteAt(i int) byte {
	switch last := len(r.payload) - 1; {
	case i < last:
		return r.payload[i]
	case i == last:
		return r.payload[i] << r.pad >> r.pad
	default:
		return 0
	}
}

// align goes on at the next whole byte, where the dialect has only those.
func (r *Reader) align() {
	if r.version == V20 {
		r.at = (r.at + 7) &^ 7
	}
}

func (r *Reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}
