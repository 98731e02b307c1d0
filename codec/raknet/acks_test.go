package raknet

import (
	"math/rand/v2"
	"testing"

	"tidegate/codec"
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

// TestForgedJumpIsNoFlood forges a datagram whose number is far ahead, and counts how often go-raknet sends its newest
// message again for the request that follows. Each repetition gets the next number.
func TestForgedJumpIsNoFlood(t *testing.T) {
	l := newConnected(t, Bedrock())
	newest := l.client.receiver.datagrams.next // it is under way
	forged := appendDataHeader(nil, newest.Add(500), false, false)
	forged = (&capsule{mode: codec.Unreliable, payload: []byte{0xfe}}).append(forged)
	if err := l.client.Receive(l.now, forged); err != nil {
		t.Fatal(err)
	}
	asked, unacked, next, again := make(map[Seq24]bool), newest, newest.Add(1), 0
	for b, ok := l.client.Transmit(l.now, nil); ok; b, ok = l.client.Transmit(l.now, nil) {
		var d datagram
		var list ackReader
		if d.parse(b) != nil || d.kind != nackDatagram || list.parse(d.body) != nil {
			continue
		}
		before := Seq24(0)
		for r, ok := list.next(); ok; r, ok = list.next() {
			if r.first < before { // SLikeNet ignores such a list
				t.Errorf("%d comes behind %d", r.first, before)
			}
			before = r.last
			for n := r.first; !r.last.Before(n); n = n.Add(1) {
				if asked[n] = true; n == unacked {
					unacked, next, again = next, next.Add(1), again+1
				}
			}
		}
	}
	if len(asked) != 500 || again == 0 || again > nackRun {
		t.Errorf("%d numbers are asked for, want 500, and sent %d times, want at most %d", len(asked), again, nackRun)
	}
}

// TestNewestNumbersFirst writes random sets, also over the wrap-around, and finds each number in one NACK.
func TestNewestNumbersFirst(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		var q ackQueue
		missing := make(map[Seq24]bool)
		for range nackRun + 1 + rng.IntN(200) {
			n := Seq24(seq24Mask - 300).Add(rng.IntN(600))
			q.add(n)
			missing[n] = true
		}
		for count := len(missing); q.count > nackRun; {
			var d datagram
			var list ackReader
			b := q.writeNewest(nil, 500)
			if err := d.parse(b); err != nil || list.parse(d.body) != nil {
				t.Fatalf("%x: %v", b, err)
			}
			for r, ok := list.next(); ok; r, ok = list.next() {
				for n := r.first; !r.last.Before(n); n = n.Add(1) {
					if !missing[n] {
						t.Fatalf("%d is named, and arrived or was named before", n)
					}
					delete(missing, n)
				}
			}
			if count -= nackRun; len(missing) != count || q.count != count {
				t.Fatalf("%d are left, and %d in the set, want %d", len(missing), q.count, count)
			}
		}
	}
}
