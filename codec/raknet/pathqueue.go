package raknet

import "time"

// leastRoundTripLife is how long the least round trip is trusted, up to twice as long. The path may change.
const leastRoundTripLife = 10 * time.Second

// queueSlack is how much the round trip may exceed the least one, plus an eighth of it, without a sign of a queue.
// Peers that expect more data acknowledge every 10 ms.
const queueSlack = 12 * time.Millisecond

// ackLag is how much later than a path without a queue an ACK may come before its peer counts as lagging. Other peers
// acknowledge within 25 ms.
const ackLag = 30 * time.Millisecond

// pathQueue detects a queue on the path of our datagrams. There is one if the least round trip of a whole round
// exceeds that of the last ten seconds. But some peers hold their ACKs back: go-raknet for 100 ms. To those the sender
// sends pings, which they answer at once. There is a queue if the ping is late, too.
type pathQueue struct {
	least, before time.Duration // least round trip of this span of time and of the previous one; 0 if none
	since         time.Duration // when this span began
	round         time.Duration // least round trip of this round; 0 if none yet
	roundEnd      Seq24         // the acknowledgement of this datagram ends the round
	standing      bool          // as of the last whole round
	lagging       bool          // the peer holds its ACKs back
	late          bool          // the last whole round was so late that the peer may be lagging
	doubts        uint8         // late rounds in a row of a lagging peer without an answer to a ping
	pinged        time.Duration // when the last answered ping was sent
	pingTrip      time.Duration // its round trip; 0 if none yet
}

// mostDoubts is the number of late rounds after which a queue is believed without a ping. Some pings are lost.
const mostDoubts = 3

// floor returns the least round trip of the path; 0: unknown.
func (q *pathQueue) floor() time.Duration { return leastOf(q.least, q.before) }

// isLate reports whether a round trip exceeds the least one by more than a share and some slack.
func (q *pathQueue) isLate(roundTrip, slack time.Duration) bool {
	floor := q.floor()
	return roundTrip > floor+floor/8+slack
}

// ping takes the round trip of a ping that was just answered. It reports whether the ping shows for the first time that
// the peer is lagging. What seemed to be a queue was none then.
func (q *pathQueue) ping(now, roundTrip time.Duration) (shown bool) {
	q.pinged, q.pingTrip = now-roundTrip, max(roundTrip, 1)
	q.least = leastOf(q.least, q.pingTrip)
	if q.lagging || !q.late || q.isLate(q.pingTrip, queueSlack) {
		return false
	}
	q.lagging, q.standing = true, false
	return true
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
		q.lagging = q.lagging || q.isLate(roundTrip, ackLag)
		q.round, q.roundEnd, q.doubts, q.late, q.standing = 0, next, 0, false, false
		return
	}
	q.round = leastOf(q.round, roundTrip)
	if n.Before(q.roundEnd) {
		return
	}
	q.conclude(now)
	q.round, q.roundEnd = 0, next
}

// conclude decides at the end of a round.
func (q *pathQueue) conclude(now time.Duration) {
	q.late = q.isLate(q.round, ackLag)
	recent := q.pingTrip != 0 && now-q.pinged <= 2*q.round
	switch late := q.isLate(q.round, queueSlack); {
	case !late || !q.lagging:
		q.standing, q.doubts = late, 0
	case recent:
		q.standing, q.doubts = q.isLate(q.pingTrip, queueSlack), 0
	default:
		q.doubts = min(q.doubts+1, mostDoubts)
		q.standing = q.doubts == mostDoubts
	}
}

// leastOf returns the smaller of two times, of which 0 means none.
func leastOf(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}
