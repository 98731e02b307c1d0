package rtype

import (
	"bytes"
	"errors"
	"testing"

	"tidegate/codec"
	"tidegate/codec/codectest"
)

var instructions = []struct {
	what   string
	in     instruction
	narrow string // entities of 16 bits
	wide   string // entities of 32 bits
	last   string // entities of 32 bits, little-endian
}{
	{"create", instruction{op: create, entity: 0x0102}, "00 0102", "00 00000102", "00 02010000"},
	{"delete", instruction{op: remove, entity: 0xffff}, "01 ffff", "01 0000ffff", "01 ffff0000"},
	{"attach", instruction{op: attach, entity: 7, component: 2}, "02 0007 0002", "02 00000007 0002", "02 07000000 0200"},
	{
		"update", instruction{op: update, entity: 7, component: 0, data: []byte{0xde, 0xad, 0xbe, 0xef}},
		"03 0007 0000 deadbeef", "03 00000007 0000 deadbeef", "03 07000000 0000 deadbeef",
	},
	{"detach", instruction{op: detach, entity: 7, component: 1}, "04 0007 0001", "04 00000007 0001", "04 07000000 0100"},
}

// TestInstructions checks the document's table of instructions, and the same with the game's wider entities.
func TestInstructions(t *testing.T) {
	sizes := sizes{4, 2, 1}
	for _, c := range instructions {
		for _, wire := range []struct {
			f    format
			want []byte
		}{
			{formats[Document], codectest.Unhex(t, c.narrow)},
			{formats[Game16], codectest.Unhex(t, c.narrow)},
			{formats[Game32], codectest.Unhex(t, c.wide)},
			{formats[GameLast], codectest.Unhex(t, c.last)},
		} {
			width := wire.f.entityWidth()
			if got := c.in.append(nil, &wire.f); !bytes.Equal(got, wire.want) || c.in.len(width) != len(got) {
				t.Errorf("%s: wrote %x of %d bytes, want %x", c.what, got, c.in.len(width), wire.want)
			}
			var got instruction
			if err := got.parseAlone(wire.want, &wire.f, sizes); err != nil || !same(&got, &c.in) {
				t.Errorf("%s: read %+v, %v", c.what, got, err)
			}
			for i := range wire.want {
				if err := got.parseAlone(wire.want[:i], &wire.f, sizes); !errors.Is(err, codec.ErrMalformed) {
					t.Errorf("%s: %d of %d bytes: %v", c.what, i, len(wire.want), err)
				}
			}
			if err := got.parseAlone(append(wire.want, 0), &wire.f, sizes); err != errLength {
				t.Errorf("%s: one byte more: %v", c.what, err)
			}
			if rest, err := got.parse(append(wire.want, 9), &wire.f, sizes); err != nil || !bytes.Equal(rest, []byte{9}) {
				t.Errorf("%s: left %x, %v", c.what, rest, err)
			}
		}
	}
}

func same(a, b *instruction) bool {
	return a.op == b.op && a.entity == b.entity && a.component == b.component && bytes.Equal(a.data, b.data)
}

func TestStrangeInstructions(t *testing.T) {
	for _, c := range []struct {
		datagram string
		f        format
		sizes    sizes
		want     error
	}{
		{"", canonical, nil, errLength},
		{"05 00000001", canonical, nil, errOpcode},
		{"ff", canonical, nil, errOpcode},
		{"0a", canonical, nil, nil}, // next frame
		{"0a", formats[Document], nil, errOpcode},
		{"02 00000001 0003", canonical, sizes{1, 1, 1}, errComponent},
		{"03 00000001 0003 00", canonical, sizes{1, 1, 1}, errComponent},
		{"03 00000001 ffff 00", canonical, nil, nil}, // the list of components is unknown
		{"03 00000001 0000 0000", canonical, sizes{unknownSize}, nil},
		{"03 00000001 0000", canonical, sizes{0}, nil},
		{"02 00000001 0000", canonical, sizes{}, errComponent},
	} {
		var in instruction
		if err := in.parseAlone(codectest.Unhex(t, c.datagram), &c.f, c.sizes); err != c.want {
			t.Errorf("%s: %v, want %v", c.datagram, err, c.want)
		}
	}
}

// FuzzInstruction: an instruction that was read is written again as the same bytes.
func FuzzInstruction(f *testing.F) {
	for _, c := range instructions {
		f.Add(codectest.Unhex(f, c.narrow), true)
		f.Add(codectest.Unhex(f, c.wide), false)
	}
	f.Fuzz(func(t *testing.T, b []byte, document bool) {
		spelling := canonical
		if document {
			spelling = formats[Document]
		}
		for _, sizes := range []sizes{nil, {4, 0, unknownSize}} {
			var in instruction
			rest, err := in.parse(b, &spelling, sizes)
			if err != nil {
				continue
			}
			if got := append(in.append(nil, &spelling), rest...); !bytes.Equal(got, b) {
				t.Errorf("%x read as %+v, written as %x", b, in, got)
			}
		}
	})
}
