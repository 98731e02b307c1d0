package raknet

import (
	"testing"
	"time"
)

const testSegment = 1000

// window is a congestion window under test, with the number of the next datagram.
type window struct {
	congestion
	t    *testing.T
	next Seq24
}

// fill sends until the window delays the next datagram, and returns the number of the first sent.
func (w *window) fill() (first Seq24) {
	first = w.next
	for w.allows(0) {
		w.sent(testSegment)
		w.next = w.next.Add(1)
	}
	return first
}

// acknowledgeAll acknowledges the datagrams from first up to the next, as one batch.
func (w *window) acknowledgeAll(first Seq24) {
	for n := first; n != w.next; n = n.Add(1) {
		w.acknowledged(n, testSegment)
	}
}

func (w *window) want(what string, segments int) {
	w.t.Helper()
	if w.Window/testSegment != segments {
		w.t.Fatalf("%s: window of %d bytes, want %d datagrams", what, w.Window, segments)
	}
}

func newWindow(t *testing.T) *window {
	return &window{t: t, congestion: newCongestion(testSegment), next: seq24Mask - 5}
}

func TestSlowStartDoublesEachRound(t *testing.T) {
	w := newWindow(t)
	for round := range 4 {
		w.want("slow start", firstWindow<<round)
		w.acknowledgeAll(w.fill())
	}
}

func TestWindowGrowsOnlyIfItHoldsSomethingBack(t *testing.T) {
	w := newWindow(t)
	for range 100 {
		if !w.allows(0) {
			t.Fatal("nothing is in flight, and still nothing may be sent")
		}
		w.sent(testSegment)
		w.acknowledged(w.next, testSegment)
		w.next = w.next.Add(1)
	}
	w.want("one datagram at a time", firstWindow)
}

func TestLossHalvesOnceARound(t *testing.T) {
	w := newWindow(t)
	w.Window = 100 * testSegment
	w.queue.Standing = true
	first := w.fill()
	w.lost(first, w.next, testSegment, false)
	w.want("one lost", 50)
	w.queue.Standing = false
	w.lost(first.Add(1), w.next, testSegment, true)
	w.want("another lost of the same round", 50)
	w.acknowledgeAll(first.Add(2))
	w.want("the rest of the round acknowledged", 50)
	w.acknowledgeAll(w.fill())
	if w.want("a round of congestion avoidance", 50); w.Window < 50_900 {
		t.Errorf("window of %d bytes, want nearly a datagram more", w.Window)
	}
	first = w.fill()
	w.lost(first, w.next, testSegment, true)
	w.want("a time-out", leastWindow)
	w.lost(w.next, w.next.Add(1), testSegment, true)
	w.want("another", leastWindow)
}

// TestLossAtRandomCostsNothing: loss counts as congestion only if it is heavy, or if there is a queue.
func TestLossAtRandomCostsNothing(t *testing.T) {
	w := newWindow(t)
	w.Window, w.Threshold = 50*testSegment, 50*testSegment
	loseOneIn := func(each int) {
		for range 10 {
			first := w.fill()
			for n := first; n != w.next; n = n.Add(1) {
				if n.Sub(first)%each == each-1 {
					w.lost(n, w.next, testSegment, false)
				} else {
					w.acknowledged(n, testSegment)
				}
			}
		}
	}
	if loseOneIn(20); w.Window < 55*testSegment {
		t.Errorf("window of %d bytes after ten rounds that lost one in 20 each, want growth", w.Window)
	}
	if loseOneIn(4); w.Window > 20*testSegment {
		t.Errorf("window of %d bytes after ten rounds that lost one in 4 each, want it small", w.Window)
	}
}

// TestLossesCountForOneReduction: go-raknet drops what comes late by its first round trip, a third of the first flight.
// A single loss in a later one is no reason to halve the window again.
func TestLossesCountForOneReduction(t *testing.T) {
	w := newWindow(t)
	for first, n := w.fill(), 0; n < firstWindow; n++ {
		if n < 20 {
			w.lost(first.Add(n), w.next, testSegment, false)
		} else {
			w.acknowledged(first.Add(n), testSegment)
		}
	}
	w.want("20 lost of the first flight", firstWindow/2)
	w.lost(w.fill(), w.next, testSegment, false)
	w.want("one of the second", firstWindow/2)
}

func TestWindowDoesNotGrowWhileAQueueStands(t *testing.T) {
	w := newWindow(t)
	w.queue.Standing = true
	w.acknowledgeAll(w.fill())
	w.want("a queue stands", firstWindow)
	w.queue.Standing = false
	w.acknowledgeAll(w.fill())
	w.want("slow start is over", firstWindow)
}

// TestWindowGrowsFasterInCalm: after slow start, some rounds without a sign of congestion let the window grow by a
// quarter each round, until there is one.
func TestWindowGrowsFasterInCalm(t *testing.T) {
	w := newWindow(t)
	w.Window, w.Threshold = 8*testSegment, 8*testSegment
	now := ms
	round := func(trip int) {
		first := w.fill()
		w.acknowledgeAll(first)
		now += 50 * ms
		w.queue.sample(now, 50*ms*time.Duration(trip), w.next.Add(-1), w.next, true)
	}
	for range calmRounds {
		round(1)
	}
	before := w.Window
	if before > 13*testSegment {
		t.Errorf("window of %d bytes before the calm counts, want at most a datagram more each round", before)
	}
	for range 4 {
		round(1)
	}
	if w.Window < 2*before {
		t.Errorf("window of %d bytes after four calm rounds, %d before, want twice as much", w.Window, before)
	}
	for sign, happens := range map[string]func(){
		"a queue": func() { round(3); round(3); round(3) },
		"a loss":  func() { w.LossShare = 1; w.lost(w.fill(), w.next, testSegment, false) },
	} {
		w.queue.Calm = calmRounds
		if happens(); w.queue.Calm == calmRounds {
			t.Errorf("%s leaves the path calm", sign)
		}
	}
}

// TestSilenceLeadsToAProbe: after a first silence the window stays, but only its minimum may be sent. An
// acknowledgement ends the probe. The loss of the probe resets the window.
func TestSilenceLeadsToAProbe(t *testing.T) {
	w := newWindow(t)
	w.Window = 100 * testSegment
	silence := func(first, last Seq24) (reactions int) {
		for n := first; n != last; n = n.Add(1) {
			if w.overdue(n, w.next, testSegment, true) {
				reactions++
			}
		}
		return reactions
	}
	first := w.fill()
	if got := silence(first, w.next); got != 1 {
		t.Errorf("%d reactions to a silence, want 1", got)
	}
	w.want("a first silence", 100)
	first = w.fill()
	if got := w.next.Sub(first); got != leastWindow || w.hasRoom() {
		t.Errorf("a probe of %d datagrams, want %d", got, leastWindow)
	}
	w.answered(50 * ms)
	if !w.hasRoom() {
		t.Error("no room after an answer to the probe")
	}
	first = w.fill()
	silence(first, w.next)
	first = w.fill()
	if got := silence(first, w.next); got == 0 {
		t.Error("no reaction to the loss of the probe")
	}
	w.want("a second silence", leastWindow)
	if w.Threshold != 50*testSegment {
		t.Errorf("threshold of %d bytes, want half of the window before", w.Threshold)
	}
}
