package riptide

import "encoding/binary"

// This file has the library's other Get and Add methods, for tests of all types of C# and Unity.

// Vector2 is the Unity type of that name.
type Vector2 struct{ X, Y float32 }

// Vector3 is the Unity type of that name.
type Vector3 struct{ X, Y, Z float32 }

// Quaternion is the Unity type of that name.
type Quaternion struct{ X, Y, Z, W float32 }

// Err returns the first error so far: ErrShort, ErrVarint or ErrDialect.
func (r *Reader) Err() error { return r.err }

// SByte reads an sbyte.
func (r *Reader) SByte() int8 { return Get[int8](r) }

// Short reads a short.
func (r *Reader) Short() int16 { return Get[int16](r) }

// UShort reads a ushort.
func (r *Reader) UShort() uint16 { return Get[uint16](r) }

// Int reads an int.
func (r *Reader) Int() int32 { return Get[int32](r) }

// UInt reads a uint.
func (r *Reader) UInt() uint32 { return Get[uint32](r) }

// Long reads a long.
func (r *Reader) Long() int64 { return Get[int64](r) }

// ULong reads a ulong.
func (r *Reader) ULong() uint64 { return Get[uint64](r) }

// Float reads a float.
func (r *Reader) Float() float32 { return Get[float32](r) }

// Double reads a double.
func (r *Reader) Double() float64 { return Get[float64](r) }

// Vector2 reads x and y.
func (r *Reader) Vector2() Vector2 { return Vector2{r.Float(), r.Float()} }

// Vector3 reads x, y and z.
func (r *Reader) Vector3() Vector3 { return Vector3{r.Float(), r.Float(), r.Float()} }

// Quaternion reads x, y, z and w.
func (r *Reader) Quaternion() Quaternion {
	return Quaternion{r.Float(), r.Float(), r.Float(), r.Float()}
}

// Bools reads the elements of a bool array. In Riptide 2.0 eight of them share a byte.
func (r *Reader) Bools(elements []bool) {
	for i := range elements {
		elements[i] = r.fixed(1) == 1
	}
	r.align()
}

// VarLong reads a signed number of variable length. Riptide 2.1+.
func (r *Reader) VarLong() int64 {
	v := r.VarULong()
	return int64(v>>1) ^ -int64(v&1)
}

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

// SByte writes an sbyte.
func (w *Writer) SByte(v int8) { Add(w, v) }

// Short writes a short.
func (w *Writer) Short(v int16) { Add(w, v) }

// UShort writes a ushort.
func (w *Writer) UShort(v uint16) { Add(w, v) }

// Int writes an int.
func (w *Writer) Int(v int32) { Add(w, v) }

// UInt writes a uint.
func (w *Writer) UInt(v uint32) { Add(w, v) }

// Long writes a long.
func (w *Writer) Long(v int64) { Add(w, v) }

// ULong writes a ulong.
func (w *Writer) ULong(v uint64) { Add(w, v) }

// Float writes a float.
func (w *Writer) Float(v float32) { Add(w, v) }

// Double writes a double.
func (w *Writer) Double(v float64) { Add(w, v) }

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

// Bools writes the elements of a bool array. In Riptide 2.0 eight of them share a byte.
func (w *Writer) Bools(elements []bool) {
	for _, v := range elements {
		w.bit(v)
	}
	w.align()
}

// VarLong writes a signed number of variable length. Riptide 2.1+.
func (w *Writer) VarLong(v int64) { w.VarULong(uint64(v)<<1 ^ uint64(v>>63)) }

// Bytes writes the elements of a byte array.
func (w *Writer) Bytes(elements []byte) {
	for ; len(elements) >= 8; elements = elements[8:] {
		w.fixed(binary.LittleEndian.Uint64(elements), 64)
	}
	for _, v := range elements {
		w.Byte(v)
	}
}
