package raknet

import (
	"testing"
	"time"
)

// TestPathQueue decides by whole rounds of ten datagrams; a single one does not count.
func TestPathQueue(t *testing.T) {
	var q pathQueue
	next := Seq24(seq24Mask - 4)
	now := time.Duration(0)
	round := func(least, most time.Duration) bool {
		first := next
		next = next.Add(10)
		for n := first; n != next; n = n.Add(1) {
			d := most
			if n.Sub(first) == 5 {
				d = least
			}
			now += ms
			q.sample(now, d, n, next, true)
		}
		return q.standing
	}
	for i, step := range []struct {
		least, most time.Duration
		wait        time.Duration
		want        bool // after the rounds before the last datagram
	}{
		{50 * ms, 60 * ms, 0, false},
		{51 * ms, 200 * ms, 0, false}, // late, but not all of them
		{90 * ms, 100 * ms, 0, false}, // not over yet
		{90 * ms, 100 * ms, 0, true},
		{50 * ms, 60 * ms, 0, false}, // its first datagram ends the previous round
		{50 * ms, 60 * ms, 0, false},
		{90 * ms, 95 * ms, 0, false},
		{90 * ms, 95 * ms, 0, true},
		{90 * ms, 95 * ms, 11 * time.Second, true},  // the path is longer now
		{90 * ms, 95 * ms, 11 * time.Second, false}, // and has been for long enough
	} {
		now += step.wait
		if got := round(step.least, step.most); got != step.want {
			t.Fatalf("step %d: a queue stands = %v, want %v", i, got, step.want)
		}
	}
}

// TestPathQueueIsNotOursUnlessWeFillIt: slow traffic meets no queue of ours, however late its acknowledgements arrive.
func TestPathQueueIsNotOursUnlessWeFillIt(t *testing.T) {
	var q pathQueue
	n := Seq24(0)
	late := func(limited bool) bool {
		for range 100 {
			roundTrip := ms
			if n > 0 {
				roundTrip = 40 * ms
			}
			n = n.Add(1)
			q.sample(time.Duration(n)*ms, roundTrip, n.Add(-1), n, limited)
		}
		return q.standing
	}
	if late(false) {
		t.Error("a queue stands, though nothing was held back")
	}
	if !late(true) {
		t.Error("no queue stands, though the window holds something back")
	}
	if late(false) {
		t.Error("the queue still stands when nothing is held back any more")
	}
}
