package riptide

import (
	"encoding/binary"
	"math"
)

// Writer appends the values of a message payload to a slice. Its methods have the names of the C# types. After the
// first error, which Finish returns, it writes nothing more.
type Writer struct {
	version Version
	used    int // used bits of the last byte; 0 if all are used
	out     []byte
	err     error
}

// NewWriter returns a Writer that appends to dst.
func NewWriter(v Version, dst []byte) Writer { return Writer{version: v, out: dst} }

// Finish returns dst followed by the payload, the number of high bits of the last byte that are not part of the
// payload (Pad of codec.Message), and the first error: ErrLength or ErrDialect.
func (w *Writer) Finish() (out []byte, pad uint8, err error) {
	return w.out, uint8(-w.used & 7), w.err
}

// Byte writes a byte.
func (w *Writer) Byte(v uint8) { w.fixed(uint64(v), 8) }

// SByte writes an sbyte.
func (w *Writer) SByte(v int8) { w.fixed(uint64(v), 8) }

// Short writes a short.
func (w *Writer) Short(v int16) { w.fixed(uint64(v), 16) }

// UShort writes a ushort.
func (w *Writer) UShort(v uint16) { w.fixed(uint64(v), 16) }

// Int writes an int.
func (w *Writer) Int(v int32) { w.fixed(uint64(v), 32) }

// UInt writes a uint.
func (w *Writer) UInt(v uint32) { w.fixed(uint64(v), 32) }

// Long writes a long.
func (w *Writer) Long(v int64) { w.fixed(uint64(v), 64) }

// ULong writes a ulong.
func (w *Writer) ULong(v uint64) { w.fixed(v, 64) }

// Float writes a float.
func (w *Writer) Float(v float32) { w.UInt(math.Float32bits(v)) }

// Double writes a double.
func (w *Writer) Double(v float64) { w.ULong(math.Float64bits(v)) }

// Vector2 writes x and y.
func (w *Writer) Vector2(v Vector2) {
	w.Float(v.X)
	w.Float(v.Y)
}

// Vector3 writes x, y and z.
func (w *Writer) Vector3(v Vector3) {
	w.Vector2(Vector2{v.X, v.Y})
	w.Float(v.Z)
}

// Quaternion writes x, y, z and w.
func (w *Writer) Quaternion(v Quaternion) {
	w.Vector3(Vector3{v.X, v.Y, v.Z})
	w.Float(v.W)
}

// Bool writes a bool, in Riptide 2.0 as a byte.
func (w *Writer) Bool(v bool) {
	w.bit(v)
	w.align()
}

// Bools writes the elements of a bool array. In Riptide 2.0 eight of them share a byte.
func (w *Writer) Bools(elements []bool) {
	for _, v := range elements {
		w.bit(v)
	}
	w.align()
}

// Bits writes the lowest n bits of v, 1 to 64, the lowest first. Riptide 2.1+.
func (w *Writer) Bits(v uint64, n int) {
	if w.version == V20 {
		w.fail(ErrDialect)
	}
	w.fixed(v, n)
}

// VarULong writes an unsigned number of variable length. Riptide 2.1+.
func (w *Writer) VarULong(v uint64) {
	for ; v >= 0x80; v >>= 7 {
		w.Bits(v|0x80, 8)
	}
	w.Bits(v, 8)
}

// VarLong writes a signed number of variable length. Riptide 2.1+.
func (w *Writer) VarLong(v int64) { w.VarULong(uint64(v)<<1 ^ uint64(v>>63)) }

// Length writes the length of an array, which in Riptide 2.0 is at most 32,767.
func (w *Writer) Length(n int) {
	switch {
	case w.version != V20:
		w.VarULong(uint64(n))
	case n <= shortLength:
		w.Byte(uint8(n))
	case n <= maxLength:
		w.Byte(longLength | uint8(n>>8))
		w.Byte(uint8(n))
	default:
		w.fail(ErrLength)
	}
}

// String writes a string.
func (w *Writer) String(s string) {
	w.Length(len(s))
	for i := range len(s) {
		w.Byte(s[i])
	}
}

// Bytes writes the elements of a byte array.
func (w *Writer) Bytes(elements []byte) {
	for ; len(elements) >= 8; elements = elements[8:] {
		w.fixed(binary.LittleEndian.Uint64(elements), 64)
	}
	for _, v := range elements {
		w.Byte(v)
	}
}

// fixed writes the lowest n bits of v, up to 64, the lowest first.
func (w *Writer) fixed(v uint64, n int) {
	if w.err != nil {
		return
	}
	v = v << (64 - n) >> (64 - n)
	used := w.used
	w.used = (used + n) & 7
	if used > 0 {
		w.out[len(w.out)-1] |= byte(v << used)
		v >>= 8 - used
		n -= 8 - used
	}
	if n > 0 {
		size := len(w.out) + (n+7)/8
		w.out = binary.LittleEndian.AppendUint64(w.out, v)[:size]
	}
}

func (w *Writer) bit(v bool) {
	if v {
		w.fixed(1, 1)
	} else {
		w.fixed(0, 1)
	}
}

// align moves to the next whole byte, if the dialect has only whole bytes.
func (w *Writer) align() {
	if w.version == V20 {
		w.used = 0
	}
}

func (w *Writer) fail(err error) {
	if w.err == nil {
		w.err = err
	}
}
