package riptide

import (
	"encoding/binary"
	"math"
)

// Writer appends the values of a message payload to a slice. Its methods have the names of the C# types, and Add
// writes the other numbers. After the first error, which Finish returns, it writes nothing more.
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

// Add writes a number.
func Add[N Number](w *Writer, v N) {
	x := uint64(v)
	switch f := any(v).(type) {
	case float32:
		x = uint64(math.Float32bits(f))
	case float64:
		x = math.Float64bits(f)
	}
	w.fixed(x, 8*binary.Size(N(0)))
}

// Bool writes a bool, in Riptide 2.0 as a byte.
func (w *Writer) Bool(v bool) {
	w.bit(v)
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
