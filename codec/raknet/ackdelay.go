package raknet

import "time"

// When acknowledgements leave (docs/protocols/raknet.md#recovery-and-congestion): with data, or after a while by
// themselves. Each that goes by itself is a datagram more for the peer, and a wake-up.

// A peer whose window holds something back wants to hear soon what has arrived: in so many milliseconds, as stock
// RakNet acknowledges, or at so many datagrams.
const (
	streamAckDelay = 10 * time.Millisecond
	acksAtOnce     = 64
)

// acknowledge notes that a datagram's number must be acknowledged, and by when.
func (r *receiver) acknowledge(now time.Duration, d *datagram) {
	due := now >= r.acksAt
	if r.acks.count == 0 {
		r.acksSince, due = now, false
	}
	r.acks.add(d.number)
	switch {
	case due:
	case r.acks.count >= acksAtOnce:
		r.acksAt = now
	case d.more:
		r.acksAt = r.acksSince + min(r.ackDelay, streamAckDelay)
	default:
		r.acksAt = r.acksSince + r.ackDelay
	}
}

// acksDue reports whether acknowledgements should leave now. Those that can go with data need not wait, but no more
// ACKs go that way than would go by themselves.
func (r *receiver) acksDue(now time.Duration, withData bool) bool {
	return r.acks.count > 0 && (now >= r.acksAt || withData && now >= r.acksRide)
}

// repeatWithin is how long after an ACK its numbers may be told again. Stock RakNet takes the first ACK of a datagram
// for a sample of the round trip: a later one would lengthen its timeout, and the next sample with it, wherever its
// window waits for the timeout. It covers an ACK delay and a tick, and ends before the shortest timeout of a stock
// sender.
const repeatWithin = 40 * time.Millisecond

// writeAcks appends an ACK to b. It repeats what was new in the ACK before, since the loss of an ACK would make the
// peer send all of that again.
func (r *receiver) writeAcks(now time.Duration, b []byte, limit int) []byte {
	r.acksRide = now + r.ackDelay
	r.repeat, r.told = r.told, r.repeat
	r.told.set(&r.acks)
	if now-r.toldAt <= repeatWithin {
		for _, again := range r.repeat.ranges {
			r.acks.addUpTo(again.last, again.last.Sub(again.first)+1)
		}
	}
	r.toldAt = now
	return r.acks.write(b, ackDatagram, limit)
}
