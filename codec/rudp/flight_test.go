package rudp

import (
	"slices"
	"testing"

	"tidegate/codec"
)

// The first packet of the flight has number 0 after base, which lies around the wrap-around.
func TestFlight(t *testing.T) {
	for _, base := range []seq{0, 1, 65535, 65520, 32760} {
		f := newFlight(start, base)
		for i := range codec.Receipt(20) {
			f.carry(f.number(start.Add(ms)), i+1)
		}
		if f.allows(base-2) || !f.allows(base-1) || !f.allows(base+19) || f.allows(base+20) || f.allows(base+32768) {
			t.Errorf("base %d: allows what cannot be, or not what can", base)
		}
		a := acks{last: base + 3, bits: 0xa0000000} // 2 and 0, not 1
		if lost := f.acknowledge(&a); lost != 1 {
			t.Errorf("base %d: %d lost, want 1", base, lost)
		}
		var delivered, lost []codec.Receipt
		for r, ok, more := f.decide(&a); more; r, ok, more = f.decide(&a) {
			if ok {
				delivered = append(delivered, r)
			} else {
				lost = append(lost, r)
			}
		}
		if !slices.Equal(delivered, []codec.Receipt{1, 3, 4}) || !slices.Equal(lost, []codec.Receipt{2}) {
			t.Errorf("base %d: delivered %v, lost %v", base, delivered, lost)
		}
		if f.allows(base+2) || !f.allows(base+3) {
			t.Errorf("base %d: allows an acknowledgement to go back", base)
		}
		var left []codec.Receipt
		for r, ok := f.give(); ok; r, ok = f.give() {
			left = append(left, r)
		}
		if len(left) != 16 || left[0] != 5 {
			t.Errorf("base %d: left over %v", base, left)
		}
	}
}

// 33 packets may be unacknowledged.
func TestFlightIsFull(t *testing.T) {
	f := newFlight(start, 65530)
	for n := range maxInFlight {
		if f.isFull() {
			t.Fatalf("full with %d packets", n)
		}
		f.number(start.Add(ms))
	}
	if !f.isFull() || !f.stalledSince().Equal(start.Add(ms)) {
		t.Errorf("with 33 packets: full %v, stalled since %v", f.isFull(), f.stalledSince())
	}
	f.acknowledge(&acks{last: 65530})
	if f.isFull() {
		t.Error("full after an acknowledgement")
	}
}

// Receipts that are answered leave room for others, also when there are always some without an answer.
func TestFlightForgetsReceipts(t *testing.T) {
	f := newFlight(start, 65000)
	for range 10_000 {
		s := f.number(start)
		f.carry(s, 7)
		a := acks{last: s - 10}
		if !f.allows(a.last) {
			continue
		}
		f.acknowledge(&a)
		for _, _, ok := f.decide(&a); ok; _, _, ok = f.decide(&a) {
		}
	}
	if n := cap(f.receipts); n > flightSize {
		t.Errorf("room for %d receipts, with 10 in flight", n)
	}
}
