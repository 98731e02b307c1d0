package record

import (
	"encoding"
	"encoding/binary"
	"math"
	"reflect"
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

func writeBool(b []byte, v reflect.Value) []byte {
	if v.Bool() {
		return append(b, cborTrue)
	}
	return append(b, cborFalse)
}

func writeUint(b []byte, v reflect.Value) []byte { return appendHead(b, majorUint, v.Uint()) }

func writeInt(b []byte, v reflect.Value) []byte {
	n := v.Int()
	if n < 0 {
		return appendHead(b, majorNegative, uint64(-1-n))
	}
	return appendHead(b, majorUint, uint64(n))
}

func writeFloat(b []byte, v reflect.Value) []byte {
	return binary.BigEndian.AppendUint64(append(b, cborFloat64), math.Float64bits(v.Float()))
}

func writeText(b []byte, v reflect.Value) []byte {
	s := v.String()
	return append(appendHead(b, majorText, uint64(len(s))), s...)
}

func writeBytes(b []byte, v reflect.Value) []byte {
	if v.IsNil() {
		return append(b, cborNull)
	}
	from := v.Bytes()
	return append(appendHead(b, majorBytes, uint64(len(from))), from...)
}

// writeArray writes an array of bytes.
func writeArray(b []byte, v reflect.Value) []byte {
	from := v.Bytes()
	return append(appendHead(b, majorBytes, uint64(len(from))), from...)
}

// writeBinary writes a value by its own method, as bytes.
func writeBinary(b []byte, v reflect.Value) []byte {
	start := len(b)
	b, err := v.Addr().Interface().(encoding.BinaryAppender).AppendBinary(append(b, 0)) // the head has one byte for most
	if err != nil {
		panic(err) // addresses have no errors
	}
	n := len(b) - start - 1
	if n < smallest {
		b[start] = majorBytes | byte(n)
		return b
	}
	body := append([]byte(nil), b[start+1:]...)
	return append(appendHead(b[:start], majorBytes, uint64(n)), body...)
}

// listWriter returns the function that writes a slice or an array.
func listWriter(element *coder) func([]byte, reflect.Value) []byte {
	return func(b []byte, v reflect.Value) []byte {
		if v.Kind() == reflect.Slice && v.IsNil() {
			return append(b, cborNull)
		}
		n := v.Len()
		b = appendHead(b, majorList, uint64(n))
		for i := range n {
			b = element.write(b, v.Index(i))
		}
		return b
	}
}

func pointerWriter(element *coder) func([]byte, reflect.Value) []byte {
	return func(b []byte, v reflect.Value) []byte {
		if v.IsNil() {
			return append(b, cborNull)
		}
		return element.write(b, v.Elem())
	}
}

// mapWriter returns the function that writes a map with texts as keys.
func mapWriter(element *coder) func([]byte, reflect.Value) []byte {
	return func(b []byte, v reflect.Value) []byte {
		if v.IsNil() {
			return append(b, cborNull)
		}
		b = appendHead(b, majorMap, uint64(v.Len()))
		for of := v.MapRange(); of.Next(); {
			b = element.write(writeText(b, of.Key()), of.Value())
		}
		return b
	}
}

// write writes a struct as a map of its fields that are not empty. The number of fields is known last, so its place has
// the size that the largest number needs.
func (s *structure) write(b []byte, v reflect.Value) []byte {
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
func (s *structure) writeList(b []byte, v reflect.Value) []byte {
	b = appendHead(b, majorList, uint64(len(s.fields)))
	for i := range s.fields {
		b = s.fields[i].write(b, s.fields[i].of(v))
	}
	return b
}
