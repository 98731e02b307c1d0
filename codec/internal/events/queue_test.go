package events

import (
	"testing"

	"tidegate/codec"
	"tidegate/internal/testkit/allocs"
)

func TestFirstInFirstOut(t *testing.T) {
	var q Queue
	for round, n := range []int{3, 10 * kept, 0, 5} {
		for i := range n {
			q.Answer(codec.Receipt(i+1), i%2 == 0)
		}
		if q.Len() != n {
			t.Fatalf("round %d: %d wait, want %d", round, q.Len(), n)
		}
		for i := range n {
			ev, ok := q.Poll()
			if !ok || ev.Receipt != codec.Receipt(i+1) || (ev.Kind == codec.Delivered) != (i%2 == 0) {
				t.Fatalf("round %d: event %d is %v, %v", round, i, ev, ok)
			}
		}
		if _, ok := q.Poll(); ok || q.Room() > kept {
			t.Fatalf("round %d: another event, or room for %d", round, q.Room())
		}
	}
}

func TestRelease(t *testing.T) {
	var q Queue
	q.Push(codec.Event{Kind: codec.Connected})
	if q.Release(); q.Len() != 1 {
		t.Fatal("an event that waits was thrown away")
	}
	q.Poll()
	if q.Release(); q.Room() != 0 {
		t.Errorf("room for %d after Release", q.Room())
	}
}

func TestSteadyPathAllocatesNothing(t *testing.T) {
	var q Queue
	if n := allocs.PerRun(1000, func() {
		q.Push(codec.Event{Kind: codec.Received})
		for _, ok := q.Poll(); ok; _, ok = q.Poll() {
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
