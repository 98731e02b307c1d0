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
// sends pings, which they answer at once. There is a queue if the ping is late, too. An ACK that comes at once by
// chance makes all others late, so pings look for every queue. A ping without delay tells that the peer is lagging.
type pathQueue struct {
	Least    time.Duration `cbor:"1,keyasint,omitempty"` // least round trip of this span of time; 0 if none
	Before   time.Duration `cbor:"2,keyasint,omitempty"` // the same of the previous span
	Since    time.Duration `cbor:"3,keyasint,omitempty"` // when this span began
	Round    time.Duration `cbor:"4,keyasint,omitempty"` // least round trip of this round; 0 if none yet
	RoundEnd Seq24         `cbor:"5,keyasint,omitempty"` // the acknowledgement of this datagram ends the round
	Standing bool          `cbor:"6,keyasint,omitempty"` // as of the last whole round
	Lagging  bool          `cbor:"7,keyasint,omitempty"` // the peer holds its ACKs back
	// Doubts counts late rounds in a row of a lagging peer without an answer to a ping.
	Doubts   uint8         `cbor:"8,keyasint,omitempty"`
	Late     bool          `cbor:"11,keyasint,omitempty"` // the last whole round: a queue, or a lagging peer
	Pinged   time.Duration `cbor:"9,keyasint,omitempty"`  // when the last answered ping was sent
	PingTrip time.Duration `cbor:"10,keyasint,omitempty"` // its round trip; 0 if none yet
	Calm     uint8         `cbor:"12,keyasint,omitempty"` // rounds without a queue or a reduction, up to calmRounds
}

// calmRounds is the number of rounds in a row after which the path has more room than the window knows.
const calmRounds = 3

// mostDoubts is the number of late rounds after which a queue is believed without a ping. Some pings are lost.
const mostDoubts = 3

// floor returns the least round trip of the path; 0: unknown.
func (q *pathQueue) floor() time.Duration { return leastOf(q.Least, q.Before) }

// isLate reports whether a round trip exceeds the least one by more than a share and some slack.
func (q *pathQueue) isLate(roundTrip, slack time.Duration) bool {
	floor := q.floor()
	return roundTrip > floor+floor/8+slack
}

// ping takes the round trip of a ping that was just answered. It reports whether the ping shows for the first time that
// the peer is lagging. What seemed to be a queue was none then.
func (q *pathQueue) ping(now, roundTrip time.Duration) (shown bool) {
	q.Pinged, q.PingTrip = now-roundTrip, max(roundTrip, 1)
	q.Least = leastOf(q.Least, q.PingTrip)
	if q.Lagging || !q.Late || q.isLate(q.PingTrip, queueSlack) {
		return false
	}
	q.Lagging, q.Standing = true, false
	return true
}

// sample takes the round trip of the newest datagram n in an ACK. next is the number of the next datagram. If the
// window does not limit the traffic, a queue is not ours. A longer round trip may then come from a peer's delay of its
// ACKs.
func (q *pathQueue) sample(now, roundTrip time.Duration, n, next Seq24, limited bool) {
	if now-q.Since >= leastRoundTripLife {
		q.Before, q.Least, q.Since = q.Least, 0, now
	}
	q.Least = leastOf(q.Least, roundTrip)
	if !limited {
		q.Lagging = q.Lagging || q.isLate(roundTrip, ackLag)
		q.Round, q.RoundEnd, q.Doubts, q.Late, q.Standing = 0, next, 0, false, false
		return
	}
	q.Round = leastOf(q.Round, roundTrip)
	if n.Before(q.RoundEnd) {
		return
	}
	q.conclude(now)
	if q.Calm = min(q.Calm+1, calmRounds); q.Standing || q.Doubts > 0 {
		q.Calm = 0
	}
	q.Round, q.RoundEnd = 0, next
}

// conclude decides at the end of a round.
func (q *pathQueue) conclude(now time.Duration) {
	q.Late = q.isLate(q.Round, queueSlack)
	recent := q.PingTrip != 0 && now-q.Pinged <= 2*q.Round
	switch {
	case q.Late && recent:
		q.Standing, q.Doubts = q.isLate(q.PingTrip, queueSlack), 0
	case !q.Late || !q.Lagging:
		q.Standing, q.Doubts = q.Late, 0
	default:
		q.Doubts = min(q.Doubts+1, mostDoubts)
		q.Standing = q.Doubts == mostDoubts
	}
}

// leastOf returns the smaller of two times, of which 0 means none.
func leastOf(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}
