package raknet

import "time"

// leastRoundTripLife is how long the least round trip is trusted, up to twice as long. The path may change.
const leastRoundTripLife = 10 * time.Second

// queueSlack is how much the round trip may exceed the least one, plus an eighth of it, without a sign of a queue.
// Peers that expect more data acknowledge every 10 ms.
const queueSlack = 12 * time.Millisecond

// pathQueue detects a queue on the path of our datagrams. There is one if the least round trip of a whole round
// exceeds that of the last ten seconds.
type pathQueue struct {
	least, before time.Duration // least round trip of this span of time and of the previous one; 0 if none
	since         time.Duration // when this span began
	round         time.Duration // least round trip of this round; 0 if none yet
	roundEnd      Seq24         // the acknowledgement of this datagram ends the round
	standing      bool          // as of the last whole round
}

// sample takes the round trip of the newest datagram n in an ACK. next is the number of the next datagram. If the
// window does not limit the traffic, a queue is not ours. A longer round trip may then come from a peer's delay of its
// ACKs.
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

// leastOf returns the smaller of two times, of which 0 means none.
func leastOf(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}
