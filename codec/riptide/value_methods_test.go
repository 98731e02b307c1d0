package riptide

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
)

// methods convert a type's values from text to the wire and back, so that tests can be tables. The values are
// comparable; floats are their bits, so that NaN is comparable too.
type methods struct {
	name  string
	parse func(t *testing.T, text string) any
	read  func(r *Reader, n int) any // n is the number of elements if the type is an array
	write func(w *Writer, v any)
}

var allMethods = []methods{
	of("byte", integer[uint8], (*Reader).Byte, (*Writer).Byte),
	of("sbyte", integer[int8], (*Reader).SByte, (*Writer).SByte),
	of("bool", strconv.ParseBool, (*Reader).Bool, (*Writer).Bool),
	of("short", integer[int16], (*Reader).Short, (*Writer).Short),
	of("ushort", integer[uint16], (*Reader).UShort, (*Writer).UShort),
	of("int", integer[int32], (*Reader).Int, (*Writer).Int),
	of("uint", integer[uint32], (*Reader).UInt, (*Writer).UInt),
	of("long", integer[int64], (*Reader).Long, (*Writer).Long),
	of("ulong", integer[uint64], (*Reader).ULong, (*Writer).ULong),
	of("float", parseFloat, readFloat, writeFloat),
	of("double", parseDouble, readDouble, writeDouble),
	of("string", parseString, readString, (*Writer).String),
	of("varulong", integer[uint64], (*Reader).VarULong, (*Writer).VarULong),
	of("varlong", integer[int64], (*Reader).VarLong, (*Writer).VarLong),
	bitsMethods(3), bitsMethods(11), bitsMethods(20), bitsMethods(40),
	{
		name:  "bools",
		parse: func(_ *testing.T, text string) any { return text },
		read: func(r *Reader, n int) any {
			elements := make([]bool, n)
			r.Bools(elements)
			return strings.Trim(fmt.Sprint(elements), "[]")
		},
		write: func(w *Writer, v any) {
			var elements []bool
			for _, text := range strings.Fields(v.(string)) {
				elements = append(elements, text == "true")
			}
			w.Bools(elements)
		},
	},
}

// lengthMethods handle an array's length, which is a value only together with the elements.
var lengthMethods = of("length", strconv.Atoi, func(r *Reader) int { return r.Length(1) }, (*Writer).Length)

func methodsOf(t *testing.T, name string) methods {
	t.Helper()
	if name == lengthMethods.name {
		return lengthMethods
	}
	for _, m := range allMethods {
		if m.name == name {
			return m
		}
	}
	t.Fatalf("no type %s", name)
	return methods{}
}

func of[T comparable](
	name string, parse func(string) (T, error), read func(*Reader) T, write func(*Writer, T),
) methods {
	return methods{
		name: name,
		parse: func(t *testing.T, text string) any {
			v, err := parse(text)
			if err != nil {
				t.Fatal(err)
			}
			return v
		},
		read:  func(r *Reader, _ int) any { return read(r) },
		write: func(w *Writer, v any) { write(w, v.(T)) },
	}
}

func bitsMethods(n int) methods {
	lowest := func(text string) (uint64, error) {
		v, err := integer[uint64](text)
		return v & (1<<n - 1), err
	}
	return of(fmt.Sprintf("bits(%d)", n), lowest,
		func(r *Reader) uint64 { return r.Bits(n) }, func(w *Writer, v uint64) { w.Bits(v, n) })
}

func integer[T uint8 | int8 | uint16 | int16 | uint32 | int32 | uint64 | int64](text string) (T, error) {
	if signed, err := strconv.ParseInt(text, 10, 64); err == nil {
		return T(signed), nil
	}
	v, err := strconv.ParseUint(text, 10, 64)
	return T(v), err
}

// notANumber is float.NaN in C#, which differs from Go's.
const notANumber = 0xffc00000

func parseFloat(text string) (uint32, error) {
	if text == "NaN" {
		return notANumber, nil
	}
	v, err := strconv.ParseFloat(text, 32)
	return math.Float32bits(float32(v)), err
}

func parseDouble(text string) (uint64, error) {
	v, err := strconv.ParseFloat(text, 64)
	return math.Float64bits(v), err
}

func parseString(text string) (string, error) { return text, nil }

func readFloat(r *Reader) uint32      { return math.Float32bits(r.Float()) }
func readDouble(r *Reader) uint64     { return math.Float64bits(r.Double()) }
func readString(r *Reader) string     { return string(r.AppendString(nil)) }
func writeFloat(w *Writer, v uint32)  { w.Float(math.Float32frombits(v)) }
func writeDouble(w *Writer, v uint64) { w.Double(math.Float64frombits(v)) }
