package rudp

import (
	"encoding/hex"
	"errors"
	"hash/crc32"
	"reflect"
	"testing"

	"tidegate/codec"
	"tidegate/codec/codectest"
)

// captured holds packets of each type from the library's captures.
var captured = []struct {
	hex string
	packet
}{
	{"000100000000000000000000ba5b19af", packet{app: 1, data: []byte{}}},
	{"000100000000000000000001140023411d20", packet{app: 1, kind: kindAccept, data: []byte{20, 0}}},
	{"00010000000000000000000254557883", packet{app: 1, kind: kindRefuse, data: []byte{}}},
	{
		"0001002f000fffff00000003a6f219ce",
		packet{app: 1, seq: 47, acks: acks{15, 0xffff0000}, kind: kindNotify, data: []byte{}},
	},
	{
		"000100010002e000000000042b96c35e",
		packet{app: 1, seq: 1, acks: acks{2, 0xe0000000}, kind: kindKeepAlive, data: []byte{}},
	},
	{
		"beef00030001800000000005000000007aafa0ea2e1f78a1",
		packet{
			app: 0xbeef, seq: 3, acks: acks{1, 0x80000000}, kind: kindData,
			data: []byte{0, 0, 0, 0, 0x7a, 0xaf, 0xa0, 0xea},
		},
	},
}

func TestPacket(t *testing.T) {
	for _, c := range captured {
		if got := parse(t, codectest.Unhex(t, c.hex)); !reflect.DeepEqual(got, c.packet) {
			t.Errorf("%s: %+v, want %+v", c.hex, got, c.packet)
		}
		again := c.append([]byte("before"))
		if string(again[:6]) != "before" || hex.EncodeToString(again[6:]) != c.hex {
			t.Errorf("%+v: %x, want %s", c.packet, again, c.hex)
		}
	}
}

func TestPacketTruncated(t *testing.T) {
	for _, c := range captured {
		d := codectest.Unhex(t, c.hex)
		for n := range d {
			if err := new(packet).parse(d[:n]); !errors.Is(err, codec.ErrMalformed) {
				t.Errorf("%d bytes of %s: %v", n, c.hex, err)
			}
		}
	}
}

// TestPacketChecksum: a single changed bit anywhere fails the checksum.
func TestPacketChecksum(t *testing.T) {
	for _, c := range captured {
		for bit := range len(c.hex) * 4 {
			d := codectest.Unhex(t, c.hex)
			d[bit/8] ^= 1 << (bit % 8)
			if err := new(packet).parse(d); !errors.Is(err, codec.ErrMalformed) {
				t.Errorf("%s with bit %d changed: %v", c.hex, bit, err)
			}
		}
	}
}

// TestPacketDeadly: parse refuses packets that crash real peers, even with a correct checksum. They are packets
// shorter than their header, Data without data, and unknown types. parse also refuses packets that are too long for a
// real peer.
func TestPacketDeadly(t *testing.T) {
	for what, d := range map[string][]byte{
		"empty":              {},
		"only a checksum":    sealed(nil),
		"half a header":      sealed(make([]byte, headerLen-1)),
		"data without data":  (&packet{kind: kindData}).append(nil),
		"type 6":             (&packet{kind: 6, data: []byte{1}}).append(nil),
		"type 0x500":         (&packet{kind: 0x500, data: []byte{1}}).append(nil),
		"4081 bytes of data": (&packet{kind: kindData, data: make([]byte, 4081)}).append(nil),
	} {
		if err := new(packet).parse(d); !errors.Is(err, codec.ErrMalformed) {
			t.Errorf("%s: %v", what, err)
		}
	}
	parse(t, (&packet{kind: kindData, data: make([]byte, 4080)}).append(nil))
}

func TestTerms(t *testing.T) {
	for _, data := range [][]byte{nil, {20}, {0, 0}} {
		if err := new(terms).parse(data); !errors.Is(err, codec.ErrMalformed) {
			t.Errorf("terms %x: %v", data, err)
		}
	}
	var got terms
	if err := got.parse([]byte{250, 0}); err != nil || got != (terms{rate: 250}) {
		t.Errorf("%+v, %v", got, err)
	}
	if again := got.append(nil); string(again) != "\xfa\x00" {
		t.Errorf("again %x", again)
	}
}

func FuzzPacket(f *testing.F) {
	for _, c := range captured {
		d := codectest.Unhex(f, c.hex)
		f.Add(d[:len(d)-checksumLen])
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		d := sealed(body)
		var p packet
		if p.parse(d) != nil {
			return
		}
		if again := p.append(nil); string(again) != string(d) {
			t.Errorf("%x: again %x", d, again)
		}
	})
}

// sealed returns body with its checksum.
func sealed(body []byte) []byte {
	return be.AppendUint32(append([]byte(nil), body...), crc32.ChecksumIEEE(body))
}

// TestAcks uses the bits of captures, with numbers that pass the wrap-around.
func TestAcks(t *testing.T) {
	for _, base := range []seq{0, 65535, 65530, 65500, 32767} {
		a := acks{last: base - 1}
		for _, step := range []struct {
			add  seq
			bits uint32
		}{
			{0, 0x80000000},
			{1, 0xc0000000},
			{2, 0xe0000000},
			{4, 0x78000000},
			{5, 0xbc000000},
			{36, 0x00000003},
			{69, 0x00000000},
			{101, 0x00000001},
			{134, 0x00000000},
		} {
			a.add(base + step.add)
			if a != (acks{base + step.add, step.bits}) {
				t.Fatalf("base %d, after %d: last %d, bits %08x, want %08x", base, step.add, a.last-base, a.bits, step.bits)
			}
		}
	}
}

func TestAcksHas(t *testing.T) {
	a := acks{last: 3, bits: 0x80000001}
	for s, want := range map[seq]bool{3: true, 2: true, 1: false, 65507: true, 65508: false, 65506: false, 40000: false} {
		if a.has(s) != want {
			t.Errorf("has(%d) = %v", s, !want)
		}
	}
}

func TestSeqMinus(t *testing.T) {
	for _, c := range []struct {
		s, t seq
		want int
	}{{5, 3, 2}, {3, 5, -2}, {2, 65534, 4}, {65534, 2, -4}, {32767, 65535, -32768}, {32766, 65535, 32767}} {
		if got := c.s.minus(c.t); got != c.want {
			t.Errorf("%d minus %d = %d, want %d", c.s, c.t, got, c.want)
		}
	}
}
