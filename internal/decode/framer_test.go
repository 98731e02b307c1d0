package decode

import (
	"bytes"
	"testing"

	"tidegate/codec"
)

// TestFramerCuttings finds the same messages however the stream is cut.
func TestFramerCuttings(t *testing.T) {
	for _, c := range []struct {
		prefix int
		stream []byte
	}{
		{2, []byte{1, 0, 3, 5, 0, 8, 1, 0, 1, 0, 1, 0, 6}},
		{4, []byte{1, 0, 0, 0, 2, 5, 0, 0, 0, 0x18, 0, 0x10, 0, 0, 1, 0, 0, 0, 5}},
	} {
		for first := range len(c.stream) {
			for second := first; second < len(c.stream); second++ {
				f := framer{prefix: c.prefix}
				var sizes []int
				for _, piece := range [][]byte{c.stream[:first], c.stream[first:second], c.stream[second:]} {
					f.add(piece)
					for message, ok := f.next(); ok; message, ok = f.next() {
						sizes = append(sizes, len(message))
					}
				}
				if len(sizes) != 3 || sizes[0] != 1 || sizes[1] != 5 || sizes[2] != 1 || f.broken || len(f.rest) > 0 {
					t.Fatalf("prefix %d, cut at %d and %d: messages of %v bytes", c.prefix, first, second, sizes)
				}
			}
		}
	}
}

// TestFramerBreaks stops at an impossible length and keeps nothing after it.
func TestFramerBreaks(t *testing.T) {
	for _, c := range []struct {
		what   string
		prefix int
		stream []byte
	}{
		{"no length", 2, []byte{0, 0}},
		{"a length over the bound", 2, []byte{1, 0x10}},
		{"a negative length", 4, []byte{0xff, 0xff, 0xff, 0xff}},
		{"a protocol without streams", 0, []byte{1, 0, 3}},
	} {
		f := framer{prefix: c.prefix}
		f.add(c.stream)
		_, ok := f.next()
		f.add(bytes.Repeat(c.stream, 1000))
		if _, again := f.next(); ok || again || !f.broken || cap(f.rest) > 0 {
			t.Errorf("%s: %+v", c.what, f)
		}
	}
	f := framer{prefix: 2}
	f.add(append([]byte{0, 0x10}, make([]byte, codec.MaxDatagram)...))
	if message, ok := f.next(); !ok || len(message) != codec.MaxDatagram {
		t.Errorf("the largest message is refused: %d, %v", len(message), ok)
	}
}
