package riptide

import (
	"bytes"
	"errors"
	"testing"

	"tidegate/codec/codectest"
)

// TestReaderPadding: the rest of a datagram's last byte after the payload reads as zeros.
func TestReaderPadding(t *testing.T) {
	for _, c := range []struct {
		version Version
		payload string
		pad     uint8
		bits    int // bits that can be read
	}{
		{V22, "", 0, 4},
		{V22, "", 7, 4}, // no padding
		{V22, "ff", 0, 12},
		{V22, "ff", 4, 4},
		{V22, "ff", 5, 4},
		{V22, "ff", 3, 12},
		{V22, "ffff", 1, 20},
		{V22, "ffff", 9, 20}, // as 1
		{V20, "", 0, 0},
		{V20, "ffff", 0, 16},
		{V20, "ffff", 3, 16}, // 2.0 has no padding
	} {
		payload := codectest.Unhex(t, c.payload)
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

// TestReaderPaddingInWords: the fast path also reads padding as zeros, even if the peer set its bits.
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
		read    int // bits read before Finish
		want    error
	}{
		{V22, "01", 0, 5, nil}, // 7 bits of padding
		{V22, "0101", 0, 8, ErrTrailing},
		{V22, "0100", 0, 8, ErrTrailing}, // a whole byte of zeros is not padding
		{V22, "0100", 4, 8, nil},
		{V22, "0102", 4, 8, ErrTrailing}, // padding is zero
		{V20, "01", 0, 8, nil},
		{V20, "0100", 0, 8, ErrTrailing},
		{V20, "01", 0, 16, ErrShort}, // the first error stays
	} {
		r := NewReader(c.version, codectest.Unhex(t, c.payload), c.pad)
		r.fixed(c.read)
		if err := r.Finish(); !errors.Is(err, c.want) {
			t.Errorf("%s %s pad %d: %v, want %v", names[c.version], c.payload, c.pad, err, c.want)
		}
	}
}

// TestReaderLengthBound: a length is at most what the payload can hold, so that a caller may allocate it.
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
		r := NewReader(c.version, codectest.Unhex(t, c.payload), 0)
		if got := r.Length(c.bits); got != c.want || !errors.Is(r.Err(), c.err) {
			t.Errorf("%s %s: %d, %v; want %d, %v", names[c.version], c.payload, got, r.Err(), c.want, c.err)
		}
	}
}

// TestReaderBytesBound: the Reader returns no bytes beyond the payload, for any requested number.
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
		r := NewReader(V22, codectest.Unhex(t, c.payload), 0)
		if got := r.VarULong(); !errors.Is(r.Finish(), c.err) || c.err == nil && got != c.want {
			t.Errorf("%s: %d, %v; want %d, %v", c.payload, got, r.Finish(), c.want, c.err)
		}
	}
}

// TestReaderBool20: in Riptide 2.0 only 1 is true, and an array's last byte may have any bits above its bools.
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
