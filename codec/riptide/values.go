package riptide

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"tidegate/codec"
)

// A game's messages are values in sequence, without names or types: only the game knows them. Reader and Writer have
// the library's Get and Add methods for both dialects. See docs/protocols/riptide/replay.md#values.

// Errors of Reader, Writer and Transcode.
var (
	ErrShort    = fmt.Errorf("%w: message ends before its values", codec.ErrMalformed)
	ErrTrailing = fmt.Errorf("%w: message continues after its values", codec.ErrMalformed)
	ErrVarint   = fmt.Errorf("%w: number of more than 64 bits", codec.ErrMalformed)
	ErrLength   = errors.New("string or array too long for Riptide 2.0")
	ErrDialect  = errors.New("value does not exist in Riptide 2.0")
)

// The length of a string or array in Riptide 2.0 takes one byte up to shortLength. A longer length takes two bytes,
// big-endian, with the highest bit set.
const (
	shortLength = 1<<7 - 1
	maxLength   = 1<<15 - 1
	longLength  = 0x80
)

// Reader reads the values of a message payload, which it keeps but never changes. Its methods have the names of the C#
// types, and Get reads the other numbers. After the first error, which Finish returns, values are meaningless and
// lengths are 0.
type Reader struct {
	version Version
	pad     uint8
	payload []byte
	at, end int // in bits
	err     error
}

// NewReader returns a Reader of a codec.Message's payload without the last pad bits. Riptide 2.0 ignores pad.
func NewReader(v Version, payload []byte, pad uint8) Reader {
	r := Reader{version: v, payload: payload, end: 8 * len(payload)}
	if v == V20 {
		return r
	}
	if len(payload) > 0 {
		r.pad = pad & 7
	}
	// A datagram of Riptide 2.1+ ends on a whole byte, half a byte after the payload's. The zero bits up to there are not
	// in the payload, yet may be its last values: they look the same as padding.
	r.end = (r.end-int(r.pad)+typeBits+7)&^7 - typeBits
	return r
}

// typeBits is the size of the type in front of every body of Riptide 2.1+.
const typeBits = 4

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

// Number is a type of C#: sbyte, byte, short, ushort, int, uint, long, ulong, float or double.
type Number interface {
	int8 | uint8 | int16 | uint16 | int32 | uint32 | int64 | uint64 | float32 | float64
}

// Get reads a number. Unity's vectors and quaternions are floats in sequence.
func Get[N Number](r *Reader) (v N) {
	x := r.fixed(8 * binary.Size(v))
	switch p := any(&v).(type) {
	case *float32:
		*p = math.Float32frombits(uint32(x))
	case *float64:
		*p = math.Float64frombits(x)
	default:
		v = N(x)
	}
	return v
}

// Bool reads a bool. In Riptide 2.0 it is a byte, which means true if it is 1.
func (r *Reader) Bool() bool {
	if r.version == V20 {
		return r.Byte() == 1
	}
	return r.fixed(1) == 1
}

// Bits reads n bits, 1 to 64, the lowest first. Riptide 2.1+.
func (r *Reader) Bits(n int) uint64 {
	if r.version == V20 {
		r.fail(ErrDialect)
		return 0
	}
	return r.fixed(n)
}

// VarULong reads an unsigned number of variable length. Its longest form has ten bytes; only the lowest bit of the
// tenth counts. Riptide 2.1+.
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

// Length reads the length of an array. elementBits is the least size in bits of an element: 1 for bools, 8 for
// strings. A length beyond the payload's end is ErrShort, so the caller may allocate the returned length.
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

// AppendString reads a string and appends the peer's bytes to b. They may be invalid UTF-8.
func (r *Reader) AppendString(b []byte) []byte {
	for range r.Length(8) {
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

// has reports whether n more bits can be read, and sets the error if not.
func (r *Reader) has(n int) bool {
	if n > r.end-r.at {
		r.fail(ErrShort)
	}
	return r.err == nil
}

// word returns the eight bytes from i on.
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

// byteAt returns byte i of the payload without padding. Bytes after the end are zero.
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

// align moves to the next whole byte, if the dialect has only whole bytes.
func (r *Reader) align() {
	if r.version == V20 {
		r.at = (r.at + 7) &^ 7
	}
}

func (r *Reader) fail(err error) {
	r.err = cmp.Or(r.err, err)
}

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
	w.err = cmp.Or(w.err, err)
}
