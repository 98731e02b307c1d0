package raknet

import (
	"encoding/binary"
	"fmt"
	"time"

	"tidegate/codec"
)

// maxAckRanges bounds the ranges of datagram numbers that wait to be acknowledged or requested again. A range beyond
// the bound is forgotten: the peer sends those messages again.
const maxAckRanges = 256

// ackQueue is a sorted set of datagram numbers for an ACK or NACK, as ranges.
type ackQueue struct {
	ranges []ackRange
	count  int // number of numbers in all ranges
}

// add adds one number to the set. Numbers mostly come in order, so it searches backwards from the newest range.
func (q *ackQueue) add(n Seq24) {
	i := len(q.ranges)
	for i > 0 && n.Before(q.ranges[i-1].first) {
		i--
	}
	if i > 0 && !q.ranges[i-1].last.Before(n) {
		return
	}
	after := i > 0 && q.ranges[i-1].last.Add(1) == n
	before := i < len(q.ranges) && q.ranges[i].first == n.Add(1)
	switch {
	case after && before:
		q.ranges[i-1].last = q.ranges[i].last
		q.cut(i)
	case after:
		q.ranges[i-1].last = n
	case before:
		q.ranges[i].first = n
	case len(q.ranges) == maxAckRanges:
		return
	default:
		q.insert(i, ackRange{first: n, last: n})
	}
	q.count++
}

// addUpTo adds the count numbers up to and including last to the set.
func (q *ackQueue) addUpTo(last Seq24, count int) {
	for i := count - 1; i >= 0; i-- {
		q.add(last.Add(-i))
	}
}

// clear empties the set.
func (q *ackQueue) clear() { q.ranges, q.count = q.ranges[:0], 0 }

// set makes the set equal to another.
func (q *ackQueue) set(to *ackQueue) {
	q.ranges, q.count = append(q.ranges[:0], to.ranges...), to.count
}

// remove removes one number from the set.
func (q *ackQueue) remove(n Seq24) {
	for i := len(q.ranges) - 1; i >= 0; i-- {
		r := q.ranges[i]
		if n.Before(r.first) {
			continue
		}
		if r.last.Before(n) {
			return
		}
		q.count--
		switch {
		case r.first == r.last:
			q.cut(i)
		case n == r.first:
			q.ranges[i].first = n.Add(1)
		case n == r.last:
			q.ranges[i].last = n.Add(-1)
		case len(q.ranges) == maxAckRanges:
			q.count -= r.last.Sub(n)
			q.ranges[i].last = n.Add(-1)
		default:
			q.ranges[i].last = n.Add(-1)
			q.insert(i+1, ackRange{first: n.Add(1), last: r.last})
		}
		return
	}
}

// write appends an ACK or NACK of at most limit bytes to b, and removes its numbers from the set.
func (q *ackQueue) write(b []byte, kind datagramKind, limit int) []byte {
	w := beginAcks(b, kind, limit)
	written := 0
	for _, r := range q.ranges {
		if !w.add(r) {
			break
		}
		written++
		q.count -= r.last.Sub(r.first) + 1
	}
	q.ranges = append(q.ranges[:0], q.ranges[written:]...)
	return w.end()
}

// nackRun is how many numbers one NACK to a server has at most.
const nackRun = 64

// writeNewest appends a NACK of the nackRun highest numbers of more, and removes them from the set. go-raknet sends a
// message again for each number, also for the one that this repetition has just got. A forged number far ahead has us
// ask for hundreds to come: in one NACK, go-raknet would send one message hundreds of times, and then read too slowly.
func (q *ackQueue) writeNewest(b []byte, limit int) []byte {
	i, left := len(q.ranges), nackRun
	for ; left > 0; left -= q.ranges[i].last.Sub(q.ranges[i].first) + 1 {
		i--
	}
	rest := ackRange{q.ranges[i].first, q.ranges[i].first.Add(-left - 1)} // empty if left is 0
	q.ranges[i].first = rest.last.Add(1)
	w := beginAcks(b, nackDatagram, limit)
	for _, r := range q.ranges[i:] {
		w.add(r) // there is room: no MTU is below 400
	}
	if q.ranges, q.count = q.ranges[:i], q.count-nackRun; left < 0 {
		q.ranges = append(q.ranges, rest)
	}
	return w.end()
}

func (q *ackQueue) insert(i int, r ackRange) {
	q.ranges = append(q.ranges, ackRange{})
	copy(q.ranges[i+1:], q.ranges[i:])
	q.ranges[i] = r
}

func (q *ackQueue) cut(i int) { q.ranges = append(q.ranges[:i], q.ranges[i+1:]...) }

var errAcks = fmt.Errorf("raknet: invalid list of acknowledgements: %w", codec.ErrMalformed)

// ackRange is a run of datagram numbers, both ends included. On the wire it never spans the wrap-around.
type ackRange struct{ first, last Seq24 }

// wraps reports whether the range passes from the highest number to 0.
func (r ackRange) wraps() bool { return uint32(r.last) < uint32(r.first) }

// ackReader reads the body of an ACK or NACK (docs/protocols/raknet.md#acknowledgements):
//
//	0..1    count of records, big-endian
//	..      records: 1, number; or 0, first, last; numbers of 3 bytes, little-endian
//
// A range may hold numbers that were never sent. A loop over it must first intersect it with the sent numbers.
type ackReader struct {
	left    int
	records []byte
}

const (
	singleRecord = 1
	rangeRecord  = 0

	singleRecordSize = 1 + 3
	rangeRecordSize  = 1 + 3 + 3
)

// parse checks the whole list, so that a malformed one has no effect.
func (r *ackReader) parse(body []byte) error {
	if len(body) < 2 {
		return errAcks
	}
	check := ackReader{left: int(binary.BigEndian.Uint16(body)), records: body[2:]}
	*r = check
	for check.left > 0 {
		if !check.complete() {
			return errAcks
		}
		if got, _ := check.next(); got.wraps() {
			return errAcks
		}
	}
	return nil
}

// next returns the next range of a list that parse has accepted, or false after the last.
func (r *ackReader) next() (got ackRange, ok bool) {
	if r.left == 0 {
		return ackRange{}, false
	}
	r.left--
	first := seq24(r.records[1:])
	if r.records[0] != rangeRecord {
		r.records = r.records[singleRecordSize:]
		return ackRange{first, first}, true
	}
	last := seq24(r.records[singleRecordSize:])
	r.records = r.records[rangeRecordSize:]
	return ackRange{first, last}, true
}

// complete reports whether the next record is complete.
func (r *ackReader) complete() bool {
	if len(r.records) < singleRecordSize {
		return false
	}
	return r.records[0] != rangeRecord || len(r.records) >= rangeRecordSize
}

// ackWriter writes one ACK or NACK into a datagram of limited size.
type ackWriter struct {
	b       []byte
	start   int // start of the datagram in b
	limit   int // limit of the datagram's size
	records uint16
}

// beginAcks starts a datagram of the kind at the end of b, at most limit bytes long. add and end must follow.
func beginAcks(b []byte, kind datagramKind, limit int) ackWriter {
	bits := byte(bitValid | bitNACK)
	if kind == ackDatagram {
		bits = bitValid | bitACK
	}
	return ackWriter{b: append(b, bits, 0, 0), start: len(b), limit: limit}
}

// add writes a range, or reports that the datagram has no room for it. Stock readers reject a list with a range that
// ends below its start. A range across the wrap-around therefore becomes two records.
func (w *ackWriter) add(r ackRange) bool {
	if r.wraps() {
		if w.room() < 2*rangeRecordSize {
			return false
		}
		return w.add(ackRange{r.first, seq24Mask}) && w.add(ackRange{0, r.last})
	}
	if r.first == r.last {
		if w.room() < singleRecordSize {
			return false
		}
		w.b = appendSeq24(append(w.b, singleRecord), r.first)
	} else {
		if w.room() < rangeRecordSize {
			return false
		}
		w.b = appendSeq24(append(w.b, rangeRecord), r.first)
		w.b = appendSeq24(w.b, r.last)
	}
	w.records++
	return true
}

func (w *ackWriter) room() int { return w.limit - (len(w.b) - w.start) }

// end completes the datagram. It returns the slice given to beginAcks, followed by the datagram.
func (w *ackWriter) end() []byte {
	binary.BigEndian.PutUint16(w.b[w.start+1:], w.records)
	return w.b
}

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
