package riptide

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"tidegate/codec"
	"tidegate/codec/codectest"
	"tidegate/internal/testkit/allocs"
)

// everyValue writes a value of each type that v has.
func everyValue(w *Writer, v Version) {
	w.Byte(0xfe)
	w.SByte(-2)
	w.Bool(true)
	w.Short(-3)
	w.UShort(0xfffd)
	w.Int(-4)
	w.UInt(0xfffffffc)
	w.Long(-5)
	w.ULong(1<<64 - 5)
	w.Float(1.5)
	w.Double(-2.5)
	w.String("tide")
	w.Vector2(Vector2{1, 2})
	w.Vector3(Vector3{3, 4, 5})
	w.Quaternion(Quaternion{6, 7, 8, 9})
	w.Length(9)
	w.Bytes([]byte("estuaries"))
	w.Length(3)
	w.Bools([]bool{true, false, true})
	if v == V22 {
		w.VarULong(1<<64 - 1)
		w.VarLong(-1 << 63)
		w.Bits(0xff, 3)
	}
}

// readEveryValue returns the values of everyValue as text.
func readEveryValue(r *Reader, v Version) string {
	s := fmt.Sprint(r.Byte(), r.SByte(), r.Bool(), r.Short(), r.UShort(), r.Int(), r.UInt(), r.Long(), r.ULong(),
		r.Float(), r.Double(), string(r.AppendString([]byte("the "))), r.Vector2(), r.Vector3(), r.Quaternion(),
		string(r.AppendBytes(nil, r.Length(8))))
	elements := make([]bool, r.Length(1))
	r.Bools(elements)
	s += fmt.Sprint(elements)
	if v == V22 {
		s += fmt.Sprint(" ", r.VarULong(), r.VarLong(), r.Bits(3))
	}
	return s
}

const everyValueText = "254 -2 true -3 65533 -4 4294967292 -5 18446744073709551611 1.5 -2.5the tide" +
	"{1 2} {3 4 5} {6 7 8 9}estuaries[true false true]"

func TestEveryValue(t *testing.T) {
	for _, c := range []struct {
		version Version
		pad     uint8
		want    string
	}{
		{V20, 0, everyValueText},
		{V22, 1, everyValueText + " 18446744073709551615 -9223372036854775808 7"},
	} {
		w := NewWriter(c.version, []byte("before"))
		everyValue(&w, c.version)
		out, pad, err := w.Finish()
		if err != nil || pad != c.pad || !bytes.HasPrefix(out, []byte("before")) {
			t.Fatalf("%v: %q pad %d, %v", names[c.version], out, pad, err)
		}
		payload := out[len("before"):]
		r := NewReader(c.version, payload, pad)
		if got := readEveryValue(&r, c.version); got != c.want || r.Finish() != nil {
			t.Errorf("%v: %s, want %s; %v", names[c.version], got, c.want, r.Finish())
		}
		for n := range payload {
			r := NewReader(c.version, payload[:n], 0)
			readEveryValue(&r, c.version)
			if !errors.Is(r.Finish(), ErrShort) || !errors.Is(r.Err(), codec.ErrMalformed) {
				t.Errorf("%v: %d of %d bytes: %v", names[c.version], n, len(payload), r.Err())
			}
		}
	}
}

func TestWriterLengthBound(t *testing.T) {
	for _, c := range []struct {
		version Version
		length  int
		want    string
		err     error
	}{
		{V20, 127, "7f", nil},
		{V20, 128, "8080", nil},
		{V20, 32767, "ffff", nil},
		{V20, 32768, "", ErrLength},
		{V22, 127, "7f", nil},
		{V22, 128, "8001", nil},
		{V22, 32768, "808002", nil},
	} {
		w := NewWriter(c.version, nil)
		w.Length(c.length)
		out, _, err := w.Finish()
		if !bytes.Equal(out, codectest.Unhex(t, c.want)) || !errors.Is(err, c.err) {
			t.Errorf("%s %d: %x, %v; want %s, %v", names[c.version], c.length, out, err, c.want, c.err)
		}
	}
}

func TestValuesOfOneDialect(t *testing.T) {
	for _, name := range []string{"varulong", "varlong", "bits(3)"} {
		m := methodsOf(t, name)
		r, w := NewReader(V20, make([]byte, 20), 0), NewWriter(V20, nil)
		m.read(&r, 1)
		m.write(&w, m.parse(t, "1"))
		w.Byte(1) // not written after the error
		if out, _, err := w.Finish(); !errors.Is(err, ErrDialect) || len(out) > 0 || !errors.Is(r.Err(), ErrDialect) {
			t.Errorf("%s: read %v, written %x, %v", name, r.Err(), out, err)
		}
	}
}

func TestValueAllocations(t *testing.T) {
	w := NewWriter(V22, nil)
	everyValue(&w, V22)
	payload, pad, _ := w.Finish()
	dst, text := make([]byte, 0, codec.MaxDatagram), make([]byte, 0, 64)
	elements := make([]bool, 3)
	allocations := allocs.PerRun(100, func() {
		w := NewWriter(V22, dst)
		everyValue(&w, V22)
		r := NewReader(V22, payload, pad)
		r.Quaternion()
		text = r.AppendBytes(text[:0], r.Length(8))
		r.Bools(elements)
	})
	if allocations != 0 {
		t.Errorf("%v allocations", allocations)
	}
}
