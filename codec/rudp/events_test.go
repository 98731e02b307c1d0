package rudp

import (
	"testing"

	"tidegate/codec"
)

// A round of many events leaves no large queue behind, and the queue keeps their order.
func TestEvents(t *testing.T) {
	var e events
	for round, n := range []int{3, 10 * keptEvents, 0, 5} {
		for r := range n {
			e.answer(codec.Receipt(r), r%2 == 0)
		}
		for r := range n {
			got, ok := e.poll()
			want := codec.Lost
			if r%2 == 0 {
				want = codec.Delivered
			}
			if !ok || got.Receipt != codec.Receipt(r) || got.Kind != want {
				t.Fatalf("round %d: event %d is %v %d (%v)", round, r, got.Kind, got.Receipt, ok)
			}
		}
		if _, ok := e.poll(); ok || cap(e.list) > keptEvents {
			t.Fatalf("round %d: another event %v, room for %d", round, ok, cap(e.list))
		}
	}
}
