package raknet

import "testing"

func TestCongestion(t *testing.T) {
	const segment = 1000
	start := Seq24(seq24Mask - 5)
	c := newCongestion(segment)
	next := start
	fill := func() {
		for c.allows() {
			c.sent(segment)
			next = next.Add(1)
		}
	}
	want := func(what string, segments int) {
		t.Helper()
		if c.window/segment != segments {
			t.Fatalf("%s: window of %d bytes, want %d datagrams", what, c.window, segments)
		}
	}
	fill()
	for n := start; n != next; n = n.Add(1) {
		c.acknowledged(n, segment)
		if n == start {
			want("slow start", firstWindow+1)
		}
	}
	want("acknowledged in one go, so that the window was not full for long", firstWindow+1)

	c.window = 100 * segment
	oldest := next
	fill()
	c.lost(oldest, next, segment, false)
	want("one lost", 50)
	c.lost(oldest.Add(1), next, segment, true)
	want("another lost of the same round", 50)

	fill()
	c.inFlight = c.window
	c.acknowledged(oldest.Add(2), segment)
	want("acknowledged from before the loss", 50)
	for range 60 {
		c.inFlight = c.window
		c.acknowledged(next.Add(1), segment)
	}
	want("a round trip of congestion avoidance", 51)

	c.lost(next.Add(1), next.Add(2), segment, true)
	want("a time-out", leastWindow)
	c.lost(next.Add(3), next.Add(4), segment, true)
	want("another", leastWindow)
	c.inFlight = 0
	c.acknowledged(next.Add(9), 0)
	want("acknowledged with an empty window", leastWindow)
}
