package raknet

import (
	"math/bits"
	"slices"
	"time"

	"tidegate/codec"
)

// doubt is a split message to a server of which parts were sent again, so that the server may have got some twice.
// go-raknet does not know a part by its number: behind the whole message it begins another one with it, and keeps that.
// With the 17th such message it blocks our address. So one more datagram completes what the server may have begun. It
// has a byte for each part, under numbers that have come long ago: go-raknet drops what it joins, and others drop each
// part, as repeated (docs/protocols/raknet/recovery.md#parts-that-come-twice).
//
// First come the parts that the server may have: then it has them for certain, and the others complete the message. If
// it may have any, another datagram comes before, without the last part: it may complete a message, and then the second
// one begins it anew.
type doubt struct {
	ID     uint16  `cbor:"1,keyasint"`
	Parts  uint32  `cbor:"2,keyasint"`
	Again  partSet `cbor:"3,keyasint"`
	Twice  bool    `cbor:"4,keyasint,omitempty"` // the datagram is the first of two
	Waits  bool    `cbor:"5,keyasint,omitempty"` // for a transmission of the datagram
	Number Seq24   `cbor:"6,keyasint,omitempty"` // of the datagram
	Tried  bool    `cbor:"7,keyasint,omitempty"` // it was sent
}

// partSet is a set of parts. A message with others is too large for the datagram of a doubt.
type partSet [2]uint64

func (s *partSet) add(index uint32) {
	if index < 128 {
		s[index/64] |= 1 << (index % 64)
	}
}

func (s *partSet) len() int { return bits.OnesCount64(s[0]) + bits.OnesCount64(s[1]) }

// within reports whether a set names no part of others.
func (s *partSet) within(parts uint32) bool { return s[0]>>parts|s[1]>>(max(parts, 64)-64) == 0 }

func (s *partSet) has(index uint32) bool { return s[index/64]&(1<<(index%64)) != 0 }

// order returns the parts of the datagram in order.
func (d *doubt) order() []uint32 {
	var order, others []uint32
	for i := range d.Parts {
		if d.Again.has(i) {
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
	if d.Twice = d.Again.len() == int(d.Parts); s.fits(&d) {
		s.doubts = append(s.doubts, d)
	}
}

// fits reports whether a doubt has some of several parts, and a datagram has room for all.
func (s *sender) fits(d *doubt) bool {
	c := d.capsule()
	return d.Parts > 1 && d.Again != partSet{} && d.Again.within(d.Parts) &&
		int(d.Parts) <= (s.datagramSize()-datagramHeaderSize)/c.size()
}

func (d *doubt) capsule() capsule {
	return capsule{
		mode: codec.ReliableOrdered, split: true, splitID: d.ID, splitCount: d.Parts, payload: []byte{0xfe},
	}
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
	c := d.capsule()
	for _, c.splitIndex = range d.order() {
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
	switch {
	case i < 0:
	case arrived && s.doubts[i].Twice:
		s.doubts[i].Twice, s.doubts[i].Waits = false, true
	case arrived:
		s.doubts = slices.Delete(s.doubts, i, i+1)
	default:
		s.doubts[i].Waits = true
	}
}
