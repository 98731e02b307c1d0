package raknet

import "time"

// leastRoundTripLife is how long the least round trip is trusted; it may be twice as long. The path may change.
const leastRoundTripLife = 10 * time.Second

// queueSlack is how far the round trip may rise above the least, beside an eighth of it, without meaning that datagrams
// wait in a queue: peers that are told of more to come acknowledge every 10 ms.
const queueSlack = 12 * time.Millisecond

// pathQueue tells whether our datagrams wait in a queue on their way: then the least round trip of a whole round is
// longer than that of the last ten seconds.
type pathQueue struct {
	least, before time.Duration // round trips: of this span of time, and of the one before it; 0 if none
	since         time.Duration // when this span began
	round         time.Duration // the least of this round; 0 if none yet
	roundEnd      Seq24         // the round ends when this is acknowledged
	standing      bool          // as of the last whole round
}

// sample takes the round trip of the newest datagram n that an ACK lists; next is the number of the next datagram. Where
// the window does not limit what is sent, a queue is none of ours, and what looks like one may be a peer's patience with
// its acknowledgements.
func (q *pathQueue) sample(now, roundTrip time.Duration, n, next Seq24, limited bool) {
	if now-q.since >= leastRoundTripLife {
		q.before, q.least, q.since = q.least, 0, now
	}
	q.least = leastOf(q.least, roundTrip)
	if !limited {
		q.round, q.roundEnd, q.standing = 0, next, false
		return
	}
	q.round = leastOf(q.round, roundTrip)
	if n.Before(q.roundEnd) {
		return
	}
	floor := leastOf(q.least, q.before)
	q.standing = q.round > floor+floor/8+queueSlack
	q.round, q.roundEnd = 0, next
}

// leastOf is the lesser of two times, of which 0 is none.
func leastOf(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}
