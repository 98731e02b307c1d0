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
		return q.Standing
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
		return q.Standing
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

// TestPathQueueOfALaggingPeer: a peer that holds its ACKs back for 100 ms shows a queue by late pings only. Without any
// answer to a ping three late rounds show one.
func TestPathQueueOfALaggingPeer(t *testing.T) {
	var q pathQueue
	next, now := Seq24(0), time.Duration(0)
	round := func(roundTrip time.Duration) bool {
		now += roundTrip
		next = next.Add(10)
		q.sample(now, roundTrip, next.Add(-1), next, true)
		return q.Standing
	}
	q.ping(50*ms, 50*ms)
	if q.sample(100*ms, 100*ms, next, next, false); !q.Lagging {
		t.Fatal("an ACK 50 ms later than a pong: the peer does not count as lagging")
	}
	now = 100 * ms
	round(150 * ms) // ends the round before
	for i, step := range []struct {
		ping, acks time.Duration // 0: no pong
		want       bool
	}{
		{50 * ms, 150 * ms, false},
		{0, 150 * ms, false},
		{0, 150 * ms, false},
		{0, 150 * ms, true}, // three rounds without a pong
		{50 * ms, 150 * ms, false},
		{90 * ms, 190 * ms, true},
		{60 * ms, 60 * ms, false},
	} {
		if step.ping > 0 {
			q.ping(now, step.ping)
		}
		if got := round(step.acks); got != step.want {
			t.Fatalf("step %d: a queue stands = %v, want %v (%d doubts)", i, got, step.want, q.Doubts)
		}
	}
	var prompt pathQueue
	prompt.ping(50*ms, 50*ms)
	if prompt.sample(75*ms, 75*ms, 0, 0, false); prompt.Lagging {
		t.Error("an ACK 25 ms later than a pong: the peer counts as lagging")
	}
}

// TestLuckyAcknowledgement: a peer acknowledges each 100 ms, and once a datagram just before that. So all other rounds
// are late, though not by as much as one ACK must be. A ping shows that there is no queue, and that the peer lags.
func TestLuckyAcknowledgement(t *testing.T) {
	q := pathQueue{Least: 75 * ms}
	next, now := Seq24(0), time.Duration(0)
	round := func() {
		now, next = now+100*ms, next.Add(10)
		q.sample(now, 100*ms, next.Add(-1), next, true)
	}
	for range 3 {
		round()
	}
	if !q.Standing || q.Lagging {
		t.Fatalf("late rounds: %+v, want a queue", q)
	}
	q.ping(now, 75*ms)
	if round(); q.Standing || !q.Lagging {
		t.Errorf("a ping came back at once: %+v, want a lagging peer and no queue", q)
	}
	q.ping(now, 100*ms)
	if round(); !q.Standing {
		t.Error("a ping was late, too: no queue stands")
	}
}

// TestLaggingPeerIsFoundOut: late rounds are taken for a queue until a fast ping shows that the peer is lagging.
func TestLaggingPeerIsFoundOut(t *testing.T) {
	c := newCongestion(testSegment)
	q := &c.queue
	q.ping(50*ms, 50*ms)
	next, now := Seq24(0), 50*ms
	for range 3 {
		now, next = now+150*ms, next.Add(10)
		q.sample(now, 150*ms, next.Add(-1), next, true)
	}
	c.acknowledged(0, testSegment)
	if q.Lagging || !q.Late || !q.Standing || c.inSlowStart() {
		t.Fatalf("late rounds: %+v, want a queue and the end of slow start", q)
	}
	if c.ponged(now, 150*ms); q.Lagging || !q.Standing {
		t.Error("a late ping shows a lagging peer, want a queue")
	}
	if c.ponged(now, 50*ms); !q.Lagging || q.Standing || !c.inSlowStart() {
		t.Errorf("a fast ping: %+v, want a lagging peer, no queue, and slow start", q)
	}
}
