package raknet

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"tidegate/codec"
	"tidegate/codec/codectest"
	"tidegate/internal/testkit/allocs"
)

// ackHeaderSize is the length of an acknowledgement without records.
const ackHeaderSize = 3

func readAll(r ackReader) (all []ackRange) {
	for got, ok := r.next(); ok; got, ok = r.next() {
		all = append(all, got)
	}
	return all
}

func TestAckReader(t *testing.T) {
	for _, c := range []struct {
		name string
		hex  string
		want []ackRange
	}{
		{"single", "0001" + "01040000", []ackRange{{4, 4}}},
		{"range", "0001" + "00010000040000", []ackRange{{1, 4}}},
		{"several", "0003" + "01010000" + "00030000050000" + "01ffffff", []ackRange{{1, 1}, {3, 5}, {0xffffff, 0xffffff}}},
		{"none", "0000", nil},
	} {
		wire := codectest.Unhex(t, c.hex)
		var r ackReader
		if err := r.parse(wire); err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got := readAll(r); !slices.Equal(got, c.want) {
			t.Errorf("%s: read %v, want %v", c.name, got, c.want)
		}
		for n := range wire {
			if err := r.parse(wire[:n]); !errors.Is(err, codec.ErrMalformed) {
				t.Errorf("%s: parse of %d of %d bytes: %v, want ErrMalformed", c.name, n, len(wire), err)
			}
		}
	}
}

func TestAckReaderRefusesTheWholeList(t *testing.T) {
	var r ackReader
	if err := r.parse(codectest.Unhex(t, "0002"+"01040000"+"00050000040000")); !errors.Is(err, codec.ErrMalformed) {
		t.Errorf("range that ends below its start: %v, want ErrMalformed", err)
	}
}

func TestAckWriter(t *testing.T) {
	for _, c := range []struct {
		name   string
		kind   datagramKind
		ranges []ackRange
		want   string
	}{
		{"ACK of one", ackDatagram, []ackRange{{4, 4}}, "c0" + "0001" + "01040000"},
		{"NACK of a range", nackDatagram, []ackRange{{1, 4}}, "a0" + "0001" + "00010000040000"},
		{"two", ackDatagram, []ackRange{{1, 1}, {3, 5}}, "c0" + "0002" + "01010000" + "00030000050000"},
		{
			"across the wrap-around", ackDatagram, []ackRange{{0xfffffe, 1}},
			"c0" + "0002" + "00feffffffffff" + "00000000010000",
		},
		{"up to 0", ackDatagram, []ackRange{{0xffffff, 0}}, "c0" + "0002" + "01ffffff" + "01000000"},
	} {
		w := beginAcks([]byte("x"), c.kind, 1000)
		for _, r := range c.ranges {
			if !w.add(r) {
				t.Errorf("%s: no room for %v", c.name, r)
			}
		}
		if got := w.end(); !bytes.Equal(got[1:], codectest.Unhex(t, c.want)) || got[0] != 'x' {
			t.Errorf("%s: wrote %x, want %s", c.name, got[1:], c.want)
		}
	}
}

func TestAcksDoNotAllocate(t *testing.T) {
	room := make([]byte, 0, 100)
	if n := allocs.PerRun(10, func() {
		w := beginAcks(room, ackDatagram, 100)
		w.add(ackRange{1, 1})
		w.add(ackRange{0xfffffe, 1})
		var r ackReader
		if r.parse(w.end()[1:]) != nil {
			t.Fatal("the written list does not read back")
		}
		for _, ok := r.next(); ok; _, ok = r.next() {
			continue
		}
	}); n != 0 {
		t.Errorf("writing and reading allocate %v times", n)
	}
}

func TestAckWriterStaysInItsLimit(t *testing.T) {
	const limit = ackHeaderSize + 2*rangeRecordSize + singleRecordSize
	w := beginAcks(make([]byte, 5), nackDatagram, limit)
	for _, step := range []struct {
		add  ackRange
		want bool
	}{
		{ackRange{1, 2}, true},
		{ackRange{4, 5}, true},
		{ackRange{0xfffffe, 1}, false},
		{ackRange{7, 8}, false},
		{ackRange{7, 7}, true},
		{ackRange{9, 9}, false},
	} {
		if got := w.add(step.add); got != step.want {
			t.Errorf("add(%v) = %v, want %v", step.add, got, step.want)
		}
	}
	b := w.end()[5:]
	if len(b) != limit {
		t.Errorf("wrote %d bytes, want %d", len(b), limit)
	}
	var r ackReader
	if err := r.parse(b[1:]); err != nil || len(readAll(r)) != 3 {
		t.Errorf("the list does not read back: %v", err)
	}
}
