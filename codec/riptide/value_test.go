package riptide

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"tidegate/codec"
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

// readEveryValue describes what everyValue wrote.
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

const everyValueText = "254 -2 true -3 65533 -4 4294967292 -5 18446744073709551611 1.5 -2.5the tide{1 2} {3 4 5} {6 7 8 9}" +
	"estuaries[true false true]"

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

// What a datagram's last byte has beyond the payload reads as zeros, and no further.
func TestReaderPadding(t *testing.T) {
	for _, c := range []struct {
		version Version
		payload string
		pad     uint8
		bits    int // that can be read
	}{
		{V22, "", 0, 4},
		{V22, "", 7, 4}, // nothing to pad
		{V22, "ff", 0, 12},
		{V22, "ff", 4, 4},
		{V22, "ff", 5, 4},
		{V22, "ff", 3, 12},
		{V22, "ffff", 1, 20},
		{V22, "ffff", 9, 20}, // as 1
		{V20, "", 0, 0},
		{V20, "ffff", 0, 16},
		{V20, "ffff", 3, 16}, // 2.0 knows no padding
	} {
		payload := unhex(t, c.payload)
		ones := 8 * len(payload)
		if len(payload) > 0 && c.version == V22 {
			ones -= int(c.pad & 7)
		}
		r := NewReader(c.version, payload, c.pad)
		for i := range c.bits {
			if got := r.fixed(1); got == 1 != (i < ones) {
				t.Errorf("%s %q pad %d: bit %d is %d", names[c.version], c.payload, c.pad, i, got)
			}
		}
		if err := r.Finish(); err != nil {
			t.Errorf("%s %q pad %d: %v", names[c.version], c.payload, c.pad, err)
		}
		if r.fixed(1); !errors.Is(r.Err(), ErrShort) {
			t.Errorf("%s %q pad %d: more than %d bits", names[c.version], c.payload, c.pad, c.bits)
		}
	}
}

// Padding is read as zeros also by the fastest way, whatever the peer put there.
func TestReaderPaddingInWords(t *testing.T) {
	r := NewReader(V22, bytes.Repeat([]byte{0xff}, 8), 3)
	if got := r.Bits(64); got != 1<<61-1 || r.Finish() != nil {
		t.Errorf("%x, %v", got, r.Finish())
	}
}

func TestReaderTrailing(t *testing.T) {
	for _, c := range []struct {
		version Version
		payload string
		pad     uint8
		read    int // bits, before Finish
		want    error
	}{
		{V22, "01", 0, 5, nil}, // 7 bits of padding
		{V22, "0101", 0, 8, ErrTrailing},
		{V22, "0100", 0, 8, ErrTrailing}, // a whole byte of zeros is no padding
		{V22, "0100", 4, 8, nil},
		{V22, "0102", 4, 8, ErrTrailing}, // padding is zero
		{V20, "01", 0, 8, nil},
		{V20, "0100", 0, 8, ErrTrailing},
		{V20, "01", 0, 16, ErrShort}, // the first error stays
	} {
		r := NewReader(c.version, unhex(t, c.payload), c.pad)
		r.fixed(c.read)
		if err := r.Finish(); !errors.Is(err, c.want) {
			t.Errorf("%s %s pad %d: %v, want %v", names[c.version], c.payload, c.pad, err, c.want)
		}
	}
}

// A length is at most what the payload can hold, so that nobody allocates more for it.
func TestReaderLengthBound(t *testing.T) {
	for _, c := range []struct {
		version Version
		payload string
		bits    int
		want    int
		err     error
	}{
		{V20, "020000", 8, 2, nil},
		{V20, "030000", 8, 0, ErrShort},
		{V20, "100000", 1, 16, nil},
		{V20, "110000", 1, 0, ErrShort},
		{V20, "800200ff", 8, 2, nil}, // the long form of a short length
		{V20, "ffff", 8, 0, ErrShort},
		{V20, "80", 1, 0, ErrShort},
		{V22, "020000", 8, 2, nil},
		{V22, "030000", 8, 0, ErrShort},
		{V22, "140000", 1, 20, nil},
		{V22, "150000", 1, 0, ErrShort},
		{V22, "ffffffffffffffffff01", 1, 0, ErrShort},
		{V22, "8080808080", 8, 0, ErrShort},
	} {
		r := NewReader(c.version, unhex(t, c.payload), 0)
		if got := r.Length(c.bits); got != c.want || !errors.Is(r.Err(), c.err) {
			t.Errorf("%s %s: %d, %v; want %d, %v", names[c.version], c.payload, got, r.Err(), c.want, c.err)
		}
	}
}

// Bytes that are not there are not made up, however many a caller asks for.
func TestReaderBytesBound(t *testing.T) {
	r := NewReader(V20, make([]byte, 20), 0)
	if got := r.AppendBytes([]byte("before"), 1<<30); string(got) != "before" || !errors.Is(r.Err(), ErrShort) {
		t.Errorf("%d bytes, %v", len(got), r.Err())
	}
}

func TestReaderVarint(t *testing.T) {
	for _, c := range []struct {
		payload string
		want    uint64
		err     error
	}{
		{"8100", 1, nil}, // more bytes than needed
		{"ffffffffffffffffff7f", 1<<64 - 1, nil},
		{"80808080808080808080", 0, ErrVarint},
		{"8080", 0, ErrShort},
	} {
		r := NewReader(V22, unhex(t, c.payload), 0)
		if got := r.VarULong(); !errors.Is(r.Finish(), c.err) || c.err == nil && got != c.want {
			t.Errorf("%s: %d, %v; want %d, %v", c.payload, got, r.Finish(), c.want, c.err)
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
		if !bytes.Equal(out, unhex(t, c.want)) || !errors.Is(err, c.err) {
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

// In Riptide 2.0 only 1 is true, and the last byte of an array may have anything above its bools.
func TestReaderBool20(t *testing.T) {
	r := NewReader(V20, []byte{0, 1, 2, 0xff, 0xfd, 7}, 0)
	for i, want := range []bool{false, true, false, false} {
		if got := r.Bool(); got != want {
			t.Errorf("bool %d: %v", i, got)
		}
	}
	elements := make([]bool, 3)
	if r.Bools(elements); elements[0] != true || elements[1] != false || elements[2] != true {
		t.Errorf("bools: %v", elements)
	}
	if got := r.Byte(); got != 7 || r.Finish() != nil {
		t.Errorf("behind the bools: %d, %v", got, r.Finish())
	}
}

func TestValueAllocations(t *testing.T) {
	w := NewWriter(V22, nil)
	everyValue(&w, V22)
	payload, pad, _ := w.Finish()
	dst, text := make([]byte, 0, codec.MaxDatagram), make([]byte, 0, 64)
	elements := make([]bool, 3)
	allocs := testing.AllocsPerRun(100, func() {
		w := NewWriter(V22, dst)
		everyValue(&w, V22)
		r := NewReader(V22, payload, pad)
		r.Quaternion()
		text = r.AppendBytes(text[:0], r.Length(8))
		r.Bools(elements)
	})
	if allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}
