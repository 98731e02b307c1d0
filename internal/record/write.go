package record

import (
	"bytes"
	"encoding"
	"encoding/binary"
	"math"
	"reflect"
	"unsafe"
)

// Major types of CBOR (RFC 8949, section 3.1), in the upper three bits of an item's first byte.
const (
	majorUint     = 0 << 5
	majorNegative = 1 << 5
	majorBytes    = 2 << 5
	majorText     = 3 << 5
	majorList     = 4 << 5
	majorMap      = 5 << 5
	majorTag      = 6 << 5
	majorSimple   = 7 << 5
)

// Single bytes of CBOR, and the sizes of an argument after the first byte.
const (
	cborFalse   = majorSimple | 20
	cborTrue    = majorSimple | 21
	cborNull    = majorSimple | 22
	cborFloat32 = majorSimple | argument32
	cborFloat64 = majorSimple | argument64

	argument8   = 24
	argument16  = 25
	argument32  = 26
	argument64  = 27
	smallest    = argument8 // a smaller argument is in the first byte
	maxArgument = argument64
)

// appendHead appends an item's first byte and its argument.
func appendHead(b []byte, major byte, n uint64) []byte {
	switch {
	case n < smallest:
		return append(b, major|byte(n))
	case n <= math.MaxUint8:
		return append(b, major|argument8, byte(n))
	case n <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(b, major|argument16), uint16(n))
	case n <= math.MaxUint32:
		return binary.BigEndian.AppendUint32(append(b, major|argument32), uint32(n))
	}
	return binary.BigEndian.AppendUint64(append(b, major|argument64), n)
}

func writeBool(b []byte, v *bool) []byte {
	if *v {
		return append(b, cborTrue)
	}
	return append(b, cborFalse)
}

func writeUint[T uint | uint8 | uint16 | uint32 | uint64](b []byte, v *T) []byte {
	return appendHead(b, majorUint, uint64(*v))
}

func writeInt[T int | int8 | int16 | int32 | int64](b []byte, v *T) []byte {
	n := int64(*v)
	if n < 0 {
		return appendHead(b, majorNegative, uint64(-1-n))
	}
	return appendHead(b, majorUint, uint64(n))
}

func writeFloat(b []byte, v *float64) []byte {
	return binary.BigEndian.AppendUint64(append(b, cborFloat64), math.Float64bits(*v))
}

func writeText(b []byte, v *string) []byte { return appendText(b, *v) }

func appendText(b []byte, s string) []byte {
	return append(appendHead(b, majorText, uint64(len(s))), s...)
}

func writeBytes(b []byte, v *[]byte) []byte {
	if *v == nil {
		return append(b, cborNull)
	}
	return appendBytes(b, *v)
}

func appendBytes(b, from []byte) []byte {
	return append(appendHead(b, majorBytes, uint64(len(from))), from...)
}

// writeBinary writes a value by its own method, as bytes.
func writeBinary(b []byte, v encoding.BinaryAppender) []byte {
	start := len(b)
	b, err := v.AppendBinary(append(b, 0)) // the head has one byte for most
	if err != nil {
		panic(err) // addresses have no errors
	}
	n := len(b) - start - 1
	if n < smallest {
		b[start] = majorBytes | byte(n)
		return b
	}
	return appendBytes(b[:start], bytes.Clone(b[start+1:]))
}

// writeAll writes the n elements of a list. Each has the given size.
func (c *coder) writeAll(b []byte, first unsafe.Pointer, n int, size uintptr) []byte {
	b = appendHead(b, majorList, uint64(n))
	for i := range uintptr(n) {
		b = c.write(b, unsafe.Add(first, i*size))
	}
	return b
}

// writeMap writes a map with texts as keys.
func (c *coder) writeMap(b []byte, all reflect.Value) []byte {
	if all.IsNil() {
		return append(b, cborNull)
	}
	b = appendHead(b, majorMap, uint64(all.Len()))
	of := reflect.New(all.Type().Elem())
	for each := all.MapRange(); each.Next(); {
		of.Elem().SetIterValue(each)
		b = c.write(appendText(b, each.Key().String()), of.UnsafePointer())
	}
	return b
}

// write writes a struct as a map of its fields that are not empty. The number of fields is known last, so its place has
// the size that the largest number needs.
func (s *structure) write(b []byte, v unsafe.Pointer) []byte {
	at := len(b)
	if len(s.fields) < smallest {
		b = append(b, 0)
	} else {
		b = append(b, majorMap|argument8, 0)
	}
	n := 0
	for i := range s.fields {
		f := &s.fields[i]
		of := f.of(v)
		if f.omits && f.empty(of) {
			continue
		}
		b = f.write(append(b, f.head...), of)
		n++
	}
	if len(s.fields) < smallest {
		b[at] = majorMap | byte(n)
	} else {
		b[at+1] = byte(n)
	}
	return b
}

// writeList writes a struct as the list of its fields.
func (s *structure) writeList(b []byte, v unsafe.Pointer) []byte {
	b = appendHead(b, majorList, uint64(len(s.fields)))
	for i := range s.fields {
		b = s.fields[i].write(b, s.fields[i].of(v))
	}
	return b
}
