package netio

import (
	"bytes"
	"errors"
	"testing"
)

func TestFramingCut(t *testing.T) {
	for _, c := range []struct {
		prefix      Prefix
		b           string
		frame, rest string
		err         error
	}{
		{LengthU16LE, "", "", "", nil},
		{LengthU16LE, "\x01", "", "\x01", nil},
		{LengthU16LE, "\x01\x00", "", "\x01\x00", nil},
		{LengthU16LE, "\x01\x00ab", "a", "b", nil},
		{LengthU16LE, "\x03\x00abc", "abc", "", nil},
		{LengthU16LE, "\x04\x00", "", "", ErrFrame},
		{LengthU16LE, "\x00\x01", "", "", ErrFrame},
		{LengthI32LE, "\x01\x00\x00", "", "\x01\x00\x00", nil},
		{LengthI32LE, "\x02\x00\x00\x00abc", "ab", "c", nil},
		{LengthI32LE, "\x01\x00\x01\x00", "", "", ErrFrame},
		{LengthI32LE, "\x00\x00\x00\x80", "", "", ErrFrame},
	} {
		frame, rest, err := framing{c.prefix, 3}.cut([]byte(c.b))
		if string(frame) != c.frame || string(rest) != c.rest || !errors.Is(err, c.err) {
			t.Errorf("%q: %q, %q, %v; want %q, %q, %v", c.b, frame, rest, err, c.frame, c.rest, c.err)
		}
		if len(frame) != cap(frame) {
			t.Errorf("%q: the frame has room beyond its end", c.b)
		}
	}
}

// FuzzFraming checks that frames are within bounds and lose no byte, for any input.
func FuzzFraming(f *testing.F) {
	f.Add([]byte("\x01\x00ab\x00"), false)
	f.Add([]byte("\x01\x00\x00\x00ab\x00\x00\x00"), true)
	f.Fuzz(func(t *testing.T, b []byte, wide bool) {
		framing := framing{LengthU16LE, 50}
		if wide {
			framing.prefix = LengthI32LE
		}
		var again []byte
		for rest := b; ; {
			frame, after, err := framing.cut(rest)
			if err != nil {
				return
			}
			if frame == nil {
				if again = append(again, after...); !bytes.Equal(again, b) {
					t.Fatalf("%x was cut to %x", b, again)
				}
				return
			}
			if len(frame) < 1 || len(frame) > 50 {
				t.Fatalf("a frame of %d bytes", len(frame))
			}
			again, rest = framing.append(again, frame), after
		}
	})
}
