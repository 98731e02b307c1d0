// Package riptidemessage reads and writes Riptide 2.2 messages on a RakNet server behind Tidegate, on a route with
// envelope = "id". Copy it: it needs no other package.
//
// A RakNet message is: the packet byte 0x86, the message ID (2 bytes, low byte first), the values of the message.
// Values are strings of bits, the lowest bit of each byte first.
package riptidemessage

import (
	"encoding/binary"
	"errors"
	"math"
)

// PacketByte is packet_id of the route.
const PacketByte = 0x86

// Errors of a Reader.
var (
	ErrForeign = errors.New("not a message of Riptide")
	ErrShort   = errors.New("the message ends before its values")
)

// Reader reads the values of a message in the order in which the game added them. After an error all values are zero.
type Reader struct {
	ID   uint16
	Err  error
	data []byte
	bit  int
}

// NewReader returns a Reader of a RakNet message.
func NewReader(data []byte) *Reader {
	if len(data) < 3 || data[0] != PacketByte {
		return &Reader{Err: ErrForeign}
	}
	return &Reader{ID: binary.LittleEndian.Uint16(data[1:]), data: data, bit: 24}
}

// Bits reads an unsigned number of n bits, at most 64.
func (r *Reader) Bits(n int) (value uint64) {
	if r.Err == nil && r.bit+n > 8*len(r.data) {
		r.Err = ErrShort
	}
	if r.Err != nil {
		return 0
	}
	for i := range n {
		value |= uint64(r.data[r.bit/8]>>(r.bit%8)&1) << i
		r.bit++
	}
	return value
}

// Byte reads an unsigned byte, as Riptide names it.
func (r *Reader) Byte() uint8 { return uint8(r.Bits(8)) }

// SByte reads a signed byte, as Riptide names it.
func (r *Reader) SByte() int8 { return int8(r.Bits(8)) }

// Bool reads a bit, as Riptide names it.
func (r *Reader) Bool() bool { return r.Bits(1) == 1 }

// UShort reads 16 bits without a sign, as Riptide names it.
func (r *Reader) UShort() uint16 { return uint16(r.Bits(16)) }

// Short reads 16 bits with a sign, as Riptide names it.
func (r *Reader) Short() int16 { return int16(r.Bits(16)) }

// UInt reads 32 bits without a sign, as Riptide names it.
func (r *Reader) UInt() uint32 { return uint32(r.Bits(32)) }

// Int reads 32 bits with a sign, as Riptide names it.
func (r *Reader) Int() int32 { return int32(r.Bits(32)) }

// ULong reads 64 bits without a sign, as Riptide names it.
func (r *Reader) ULong() uint64 { return r.Bits(64) }

// Long reads 64 bits with a sign, as Riptide names it.
func (r *Reader) Long() int64 { return int64(r.Bits(64)) }

// Float reads a number of 32 bits, as Riptide names it.
func (r *Reader) Float() float32 { return math.Float32frombits(r.UInt()) }

// Double reads a number of 64 bits, as Riptide names it.
func (r *Reader) Double() float64 { return math.Float64frombits(r.ULong()) }

// Vector2 reads x and y.
func (r *Reader) Vector2() [2]float32 { return [2]float32{r.Float(), r.Float()} }

// Vector3 reads x, y and z.
func (r *Reader) Vector3() [3]float32 { return [3]float32{r.Float(), r.Float(), r.Float()} }

// Quaternion reads x, y, z and w.
func (r *Reader) Quaternion() [4]float32 {
	return [4]float32{r.Float(), r.Float(), r.Float(), r.Float()}
}

// VarULong reads the length of a string or an array: 7 bits a byte, the highest bit says that more follow.
func (r *Reader) VarULong() (value uint64) {
	for shift := 0; shift < 64; shift += 7 {
		b := r.Byte()
		value |= uint64(b&0x7f) << shift
		if b < 0x80 {
			return value
		}
	}
	r.Err = ErrShort
	return 0
}

// VarLong reads a signed number of variable length.
func (r *Reader) VarLong() int64 {
	value := r.VarULong()
	return int64(value>>1) ^ -int64(value&1)
}

// String reads a string.
func (r *Reader) String() string { return string(Array(r, (*Reader).Byte)) }

// Array reads an array with its length: Array(r, (*Reader).Int).
func Array[T any](r *Reader, read func(*Reader) T) (values []T) {
	for n := r.VarULong(); n > 0 && r.Err == nil; n-- {
		values = append(values, read(r))
	}
	return values
}

// Writer makes a message for a Riptide client.
type Writer struct {
	Data []byte // the message: hand it to your RakNet library
	bit  int
}

// NewWriter begins a message.
func NewWriter(id uint16) *Writer {
	return &Writer{Data: binary.LittleEndian.AppendUint16([]byte{PacketByte}, id), bit: 24}
}

// Bits writes an unsigned number of n bits, at most 64.
func (w *Writer) Bits(value uint64, n int) {
	for i := range n {
		if w.bit%8 == 0 {
			w.Data = append(w.Data, 0)
		}
		w.Data[w.bit/8] |= byte(value>>i&1) << (w.bit % 8)
		w.bit++
	}
}

// Byte writes an unsigned byte, as Riptide names it.
func (w *Writer) Byte(v uint8) { w.Bits(uint64(v), 8) }

// SByte writes a signed byte, as Riptide names it.
func (w *Writer) SByte(v int8) { w.Bits(uint64(v), 8) }

// UShort writes 16 bits without a sign, as Riptide names it.
func (w *Writer) UShort(v uint16) { w.Bits(uint64(v), 16) }

// Short writes 16 bits with a sign, as Riptide names it.
func (w *Writer) Short(v int16) { w.Bits(uint64(v), 16) }

// UInt writes 32 bits without a sign, as Riptide names it.
func (w *Writer) UInt(v uint32) { w.Bits(uint64(v), 32) }

// Int writes 32 bits with a sign, as Riptide names it.
func (w *Writer) Int(v int32) { w.Bits(uint64(v), 32) }

// ULong writes 64 bits without a sign, as Riptide names it.
func (w *Writer) ULong(v uint64) { w.Bits(v, 64) }

// Long writes 64 bits with a sign, as Riptide names it.
func (w *Writer) Long(v int64) { w.Bits(uint64(v), 64) }

// Float writes a number of 32 bits, as Riptide names it.
func (w *Writer) Float(v float32) { w.UInt(math.Float32bits(v)) }

// Double writes a number of 64 bits, as Riptide names it.
func (w *Writer) Double(v float64) { w.ULong(math.Float64bits(v)) }

// Bool writes a bit.
func (w *Writer) Bool(v bool) {
	if v {
		w.Bits(1, 1)
	} else {
		w.Bits(0, 1)
	}
}

// Vector2 writes x and y.
func (w *Writer) Vector2(v [2]float32) { w.floats(v[:]) }

// Vector3 writes x, y and z.
func (w *Writer) Vector3(v [3]float32) { w.floats(v[:]) }

// Quaternion writes x, y, z and w.
func (w *Writer) Quaternion(v [4]float32) { w.floats(v[:]) }

func (w *Writer) floats(all []float32) {
	for _, v := range all {
		w.Float(v)
	}
}

// VarULong writes an unsigned number of variable length.
func (w *Writer) VarULong(v uint64) {
	for ; v >= 0x80; v >>= 7 {
		w.Byte(uint8(v) | 0x80)
	}
	w.Byte(uint8(v))
}

// VarLong writes a signed number of variable length.
func (w *Writer) VarLong(v int64) { w.VarULong(uint64(v)<<1 ^ uint64(v>>63)) }

// String writes a string.
func (w *Writer) String(v string) { WriteArray(w, []byte(v), (*Writer).Byte) }

// WriteArray writes an array with its length: WriteArray(w, values, (*Writer).Int).
func WriteArray[T any](w *Writer, values []T, write func(*Writer, T)) {
	w.VarULong(uint64(len(values)))
	for _, v := range values {
		write(w, v)
	}
}
