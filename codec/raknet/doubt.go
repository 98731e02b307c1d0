package raknet

import (
	"math"
	"math/bits"
	"slices"
	"time"

	"tidegate/codec"
)

// doubt is a split message to a server of which parts were sent again, so that the server may have got some twice.
// go-raknet does not know a part by its number: behind the whole message it begins another one with it, and keeps that.
// With the 17th such message it blocks our address. So further datagrams complete what the server may have begun. They
// have a byte for each part, under numbers that have come long ago: go-raknet drops what it joins, and others drop each
// part, as repeated (docs/protocols/raknet/recovery.md#parts-that-come-twice).
//
// First come the parts that the server may have: then it has them for certain, and the others complete the message. If
// it may have any, another run comes before, without the last part: it may complete a message, and then the second one
// begins it anew. A run has one datagram, or more, each of which waits until the one before it has arrived.
type doubt struct {
	ID     uint16  `cbor:"1,keyasint"`
	Parts  uint32  `cbor:"2,keyasint"`
	Again  partSet `cbor:"3,keyasint"`
	Twice  bool    `cbor:"4,keyasint,omitempty"` // the run is the first of two
	Waits  bool    `cbor:"5,keyasint,omitempty"` // for a transmission of the datagram
	Number Seq24   `cbor:"6,keyasint,omitempty"` // of the datagram
	Tried  bool    `cbor:"7,keyasint,omitempty"` // it was sent
	First  uint32  `cbor:"8,keyasint,omitempty"` // place of the datagram in the run
	End    uint32  `cbor:"9,keyasint,omitempty"`
	Lost   bool    `cbor:"10,keyasint,omitempty"` // it was sent again
}

// partSet is a set of parts. Of a message with more parts than a datagram of a doubt has room for, it has none or all.
type partSet [2]uint64

var allParts = partSet{math.MaxUint64, math.MaxUint64}

func (s *partSet) add(index uint32) { s[index/64%2] |= 1 << (index % 64) }

func (s *partSet) len() int { return bits.OnesCount64(s[0]) + bits.OnesCount64(s[1]) }

// within reports whether a set names no part of others.
func (s *partSet) within(parts uint32) bool { return s[0]>>parts|s[1]>>(max(parts, 64)-64) == 0 }

// order returns the parts of a run in order.
func (d *doubt) order() []uint32 {
	var order, others []uint32
	for i := range d.Parts {
		if d.Again[i/64%2]&(1<<(i%64)) != 0 {
			order = append(order, i)
		} else {
			others = append(others, i)
		}
	}
	if d.Twice {
		return order[:len(order)-1]
	}
	return append(order, others...)
}

// doubtOf notes a message that has arrived, if the peer may have begun it again.
func (s *sender) doubtOf(m *outgoing) {
	if s.toClient || !s.Forgetful || m.Again == (partSet{}) {
		return
	}
	d := doubt{ID: m.SplitID, Parts: m.Parts, Again: m.Again, Waits: true}
	if d.Parts > s.partsAtOnce() {
		d.Again = allParts
	}
	if d.Twice = d.Again == allParts || d.Again.len() == int(d.Parts); s.fits(&d) {
		s.doubts = append(s.doubts, d)
	}
}

// fits reports whether a doubt has some of several parts, at most go-raknet's 512, and its datagrams have room for all.
func (s *sender) fits(d *doubt) bool {
	return d.Parts > 1 && d.Parts <= 512 && d.Again != partSet{} &&
		(d.Again == allParts || d.Again.within(d.Parts) && d.Parts <= s.partsAtOnce())
}

// partsAtOnce returns the number of parts that a datagram of a doubt has room for.
func (s *sender) partsAtOnce() uint32 {
	c := new(doubt).capsule()
	return uint32((s.datagramSize() - datagramHeaderSize) / c.size())
}

func (d *doubt) capsule() capsule {
	return capsule{mode: codec.ReliableOrdered, split: true, splitID: d.ID, splitCount: d.Parts, payload: []byte{0xfe}}
}

// waitingDoubt returns the first doubt whose datagram waits, or nil.
func (s *sender) waitingDoubt() *doubt {
	if i := slices.IndexFunc(s.doubts, func(d doubt) bool { return d.Waits }); i >= 0 {
		return &s.doubts[i]
	}
	return nil
}

// complete appends the datagram of a doubt.
func (s *sender) complete(now time.Duration, b []byte, d *doubt) []byte {
	start := len(b)
	s.flight.open(now)
	b = appendDataHeader(b, s.flight.next, false, s.Congestion.inSlowStart())
	c, order := d.capsule(), d.order()
	d.End = min(d.First+s.partsAtOnce(), uint32(len(order)))
	for _, c.splitIndex = range order[min(d.First, d.End):d.End] {
		b = c.append(b)
	}
	d.Waits, d.Tried, d.Number = false, true, s.flight.next
	s.flight.commit(len(b) - start)
	s.spend(len(b) - start)
	return b
}

// answerDoubt learns that a datagram has arrived, or that it seems lost.
func (s *sender) answerDoubt(n Seq24, arrived bool) {
	i := slices.IndexFunc(s.doubts, func(d doubt) bool { return d.Tried && d.Number == n })
	if i < 0 {
		return
	}
	switch d := &s.doubts[i]; {
	case !arrived:
		d.Waits, d.Lost = true, true
	case int(d.End) < len(d.order()):
		d.First, d.Waits, d.Lost = d.End, true, false
	case d.Twice || d.First > 0 && d.Lost: // the end of a run that comes twice begins the message, too
		d.Again, d.Twice, d.First, d.Waits, d.Lost = allParts, !d.Twice, 0, true, false
	default:
		s.doubts = slices.Delete(s.doubts, i, i+1)
	}
}
