package raknet

import (
	"math/rand/v2"
	"testing"
)

// TestAckQueue compares the queue with a plain set, over the wrap-around.
func TestAckQueue(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	start := Seq24(seq24Mask - 50)
	var q ackQueue
	set := make(map[Seq24]bool)
	for range 5000 {
		n := start.Add(rng.IntN(100))
		if rng.IntN(3) == 0 {
			q.remove(n)
			delete(set, n)
		} else {
			q.add(n)
			set[n] = true
		}
		checkAckQueue(t, &q, set)
	}
}

func checkAckQueue(t *testing.T, q *ackQueue, set map[Seq24]bool) {
	t.Helper()
	count := 0
	for i, r := range q.ranges {
		if i > 0 && r.first.Sub(q.ranges[i-1].last) < 2 {
			t.Fatalf("ranges %v: %d and %d are not apart", q.ranges, i-1, i)
		}
		for n := r.first; !r.last.Before(n); n = n.Add(1) {
			if !set[n] {
				t.Fatalf("ranges %v hold %d", q.ranges, n)
			}
			count++
		}
	}
	if count != len(set) || q.count != len(set) {
		t.Fatalf("ranges hold %d numbers, count says %d, want %d", count, q.count, len(set))
	}
}

func TestAckQueueIsBounded(t *testing.T) {
	var q ackQueue
	for i := range 2 * maxAckRanges {
		q.add(Seq24(2 * i))
	}
	if len(q.ranges) != maxAckRanges || q.count != maxAckRanges {
		t.Errorf("%d ranges of %d numbers, want %d", len(q.ranges), q.count, maxAckRanges)
	}
	q.add(Seq24(2*maxAckRanges - 1)) // next to an existing one
	if q.count != maxAckRanges+1 {
		t.Error("a full queue does not take the neighbour of a number it has")
	}
	for i := range q.ranges {
		q.ranges[i].last = q.ranges[i].first.Add(10_000)
	}
	q.count = 0
	if q.remove(5); len(q.ranges) > maxAckRanges {
		t.Errorf("removing made %d ranges, want at most %d", len(q.ranges), maxAckRanges)
	}
}

func TestAckQueueWritesWhatFits(t *testing.T) {
	var q ackQueue
	for i := range 100 {
		q.add(Seq24(seq24Mask - 100).Add(3 * i))
	}
	written := make(map[Seq24]bool)
	for q.count > 0 {
		b := q.write(nil, nackDatagram, 50)
		var d datagram
		var r ackReader
		if err := d.parse(b); err != nil || d.kind != nackDatagram || len(b) > 50 {
			t.Fatalf("%d bytes of kind %v: %v", len(b), d.kind, err)
		}
		if err := r.parse(d.body); err != nil {
			t.Fatal(err)
		}
		for got, ok := r.next(); ok; got, ok = r.next() {
			written[got.first] = true
		}
	}
	if len(written) != 100 {
		t.Errorf("%d numbers written, want 100", len(written))
	}
}
