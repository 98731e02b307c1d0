package raknet

import (
	"bytes"
	"errors"
	"testing"

	"tidegate/codec"
	"tidegate/codec/codectest"
)

func TestDatagram(t *testing.T) {
	for _, c := range []struct {
		name   string
		hex    string
		kind   datagramKind
		number Seq24
		body   string
		least  int // bytes of the shortest valid datagram
	}{
		{"data of stock", "84000000aabb", dataDatagram, 0, "aabb", 4},
		{"data with more to come", "8cfeffffaabb", dataDatagram, 0xfffffe, "aabb", 4},
		{"data of a packet pair", "90010000", dataDatagram, 1, "", 4},
		{"ACK", "c0000101000000", ackDatagram, 0, "000101000000", 1},
		{"ACK with a rate", "e040000000000101000000", ackDatagram, 0, "000101000000", 5},
		{"NACK", "a0000101040000", nackDatagram, 0, "000101040000", 1},
	} {
		wire := codectest.Unhex(t, c.hex)
		var d datagram
		if err := d.parse(wire); err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if d.kind != c.kind || d.number != c.number || !bytes.Equal(d.body, codectest.Unhex(t, c.body)) {
			t.Errorf("%s: parse = %+v", c.name, d)
		}
		for n := range c.least {
			if err := d.parse(wire[:n]); !errors.Is(err, codec.ErrMalformed) {
				t.Errorf("%s: parse of %d bytes: %v, want ErrMalformed", c.name, n, err)
			}
		}
		wire[0] &^= bitValid
		if err := d.parse(wire); !errors.Is(err, codec.ErrMalformed) {
			t.Errorf("%s: parse without the valid bit: %v, want ErrMalformed", c.name, err)
		}
	}
}

func TestAppendDataHeader(t *testing.T) {
	for _, c := range []struct {
		continuous, slowStart bool
		want                  string
	}{
		{false, false, "80563412"}, {false, true, "84563412"}, {true, false, "88563412"}, {true, true, "8c563412"},
	} {
		if b := appendDataHeader(nil, 0x123456, c.continuous, c.slowStart); !bytes.Equal(b, codectest.Unhex(t, c.want)) {
			t.Errorf("appendDataHeader(%v, %v) = %x, want %s", c.continuous, c.slowStart, b, c.want)
		}
	}
}

func TestSeq24WrapsAround(t *testing.T) {
	for _, test := range []struct {
		s, t Seq24
		sub  int
	}{
		{0, 0, 0},
		{1, 0, 1},
		{0, 1, -1},
		{0, seq24Mask, 1},
		{seq24Mask, 0, -1},
		{5, seq24Mask - 4, 10},
		{seq24Half - 1, 0, seq24Half - 1},
		{seq24Half, 0, -seq24Half},
		{100, seq24Half + 101, seq24Half - 1},
	} {
		if got := test.s.Sub(test.t); got != test.sub {
			t.Errorf("%d.Sub(%d) = %d, want %d", test.s, test.t, got, test.sub)
		}
		if got := test.t.Add(test.sub); got != test.s {
			t.Errorf("%d.Add(%d) = %d, want %d", test.t, test.sub, got, test.s)
		}
		if got, want := test.s.Before(test.t), test.sub < 0; got != want {
			t.Errorf("%d.Before(%d) = %v, want %v", test.s, test.t, got, want)
		}
	}
}
