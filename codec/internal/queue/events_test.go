package queue

import (
	"testing"

	"tidegate/codec"
)

func TestFirstInFirstOut(t *testing.T) {
	var e Events
	for round, n := range []int{3, 10 * kept, 0, 5} {
		for i := range n {
			e.Answer(codec.Receipt(i+1), i%2 == 0)
		}
		if e.Len() != n {
			t.Fatalf("round %d: %d wait, want %d", round, e.Len(), n)
		}
		for i := range n {
			ev, ok := e.Poll()
			if !ok || ev.Receipt != codec.Receipt(i+1) || (ev.Kind == codec.Delivered) != (i%2 == 0) {
				t.Fatalf("round %d: event %d is %v, %v", round, i, ev, ok)
			}
		}
		if _, ok := e.Poll(); ok || e.Room() > kept {
			t.Fatalf("round %d: another event, or room for %d", round, e.Room())
		}
	}
}

func TestRelease(t *testing.T) {
	var e Events
	e.Push(codec.Event{Kind: codec.Connected})
	if e.Release(); e.Len() != 1 {
		t.Fatal("an event that waits was thrown away")
	}
	e.Poll()
	if e.Release(); e.Room() != 0 {
		t.Errorf("room for %d after Release", e.Room())
	}
}

func TestSteadyPathAllocatesNothing(t *testing.T) {
	var e Events
	if n := testing.AllocsPerRun(1000, func() {
		e.Push(codec.Event{Kind: codec.Received})
		for _, ok := e.Poll(); ok; _, ok = e.Poll() {
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
