package relay

import "testing"

// TestFifo compares a queue with a list. It fills and empties both many times.
func TestFifo(t *testing.T) {
	var q fifo[int]
	var want []int
	next := 0
	for round := range 200 {
		for range round % 17 {
			*q.push() = next
			want = append(want, next)
			next++
		}
		for range round % 13 {
			got := q.pop()
			if len(want) == 0 {
				if got != nil {
					t.Fatalf("%d of an empty queue", *got)
				}
				continue
			}
			if got == nil || *got != want[0] {
				t.Fatalf("got %v, want %d", got, want[0])
			}
			want = want[1:]
		}
		if q.len() != len(want) {
			t.Fatalf("%d in the queue, want %d", q.len(), len(want))
		}
	}
}
