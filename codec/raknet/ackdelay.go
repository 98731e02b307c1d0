package raknet

import "time"

// Acknowledgements leave with data, or after a while by themselves
// (docs/protocols/raknet/recovery.md#recovery-and-congestion). Each one that leaves by itself costs the peer a datagram
// more, and a wake-up.

// A peer whose window holds data back wants its acknowledgements soon: after the same number of milliseconds as stock
// RakNet's, or after the same number of datagrams.
const (
	streamAckDelay = 10 * time.Millisecond
	acksAtOnce     = 64
)

// acknowledge records that a datagram's number must be acknowledged, and by when.
func (r *receiver) acknowledge(now time.Duration, d *datagram) {
	due := now >= r.AcksAt
	if r.acks.count == 0 {
		r.AcksSince, due = now, false
	}
	r.acks.add(d.number)
	switch {
	case due:
	case r.acks.count >= acksAtOnce:
		r.AcksAt = now
	case d.more:
		r.AcksAt = r.AcksSince + min(r.ackDelay, streamAckDelay)
	default:
		r.AcksAt = r.AcksSince + r.ackDelay
	}
}

// acksDue reports whether acknowledgements should leave now. They need not wait if they can travel with data. But no
// more ACKs travel that way than would leave by themselves.
func (r *receiver) acksDue(now time.Duration, withData bool) bool {
	return r.acks.count > 0 && (now >= r.AcksAt || withData && now >= r.AcksWithDataAt)
}

// repeatWithin is how long after an ACK its numbers may be repeated. Stock RakNet takes the first ACK of a datagram as
// a sample of the round trip. A later one would lengthen its timeout, and also the next sample while its window waits
// for the timeout. repeatWithin covers an ACK delay and a tick, and ends before the shortest timeout of a stock
// sender.
const repeatWithin = 40 * time.Millisecond

// writeAcks appends an ACK to b. It repeats the new numbers of the previous ACK. Otherwise the peer would send all
// those datagrams again after the loss of that ACK.
func (r *receiver) writeAcks(now time.Duration, b []byte, limit int) []byte {
	r.AcksWithDataAt = now + r.ackDelay
	r.repeat, r.recent = r.recent, r.repeat
	r.recent.set(&r.acks)
	if now-r.RecentAt <= repeatWithin {
		for _, again := range r.repeat.ranges {
			r.acks.addUpTo(again.last, again.last.Sub(again.first)+1)
		}
	}
	r.RecentAt = now
	return r.acks.write(b, ackDatagram, limit)
}
