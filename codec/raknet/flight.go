package raknet

import (
	"slices"
	"time"
)

// maxFlight is the number of our newest datagrams that are remembered. Stock RakNet ignores acknowledgements of older
// ones. go-raknet ends a connection with a window of 2048. So maxFlight also bounds the unacknowledged datagrams
// (docs/protocols/raknet/recovery.md#recovery-and-congestion).
const maxFlight = 512

// part is a message, or one piece of a split one, that was sent and may be sent again.
type part struct {
	_        struct{}  `cbor:",toarray"`
	message  *outgoing `cbor:"-"` // nil in a free slot
	index    uint32    // index of the piece
	reliable Seq24     // the same in each transmission; none if the message is unreliable
	id       uint32    // ID of this use of the slot
	resent   bool      // transmitted more than once
	waiting  bool      // in the resend queue
}

// partRef names a part. It is stale once the part has settled and its slot has another ID.
type partRef struct {
	_        struct{} `cbor:",toarray"`
	Slot, ID uint32
}

type datagramState uint8

const (
	inFlight datagramState = iota
	lost                   // the peer asked for it; its unreliable content may still be acknowledged in time
	expired                // no acknowledgement came in time
	settled                // acknowledged
)

// sentDatagram is one transmission: the parts in a numbered datagram.
type sentDatagram struct {
	_      struct{} `cbor:",toarray"`
	at     time.Duration
	size   int32
	state  datagramState
	unsure bool `cbor:"-"` // expired, and only a request will show that it was lost
	again  bool // sent more than once under its number
	parts  []partRef
}

// flight holds everything that was sent and has not settled: the datagrams by number, their parts, and the parts to be
// sent again. A late acknowledgement of a datagram that counts as lost still settles its parts.
type flight struct {
	*flying
	flightState
	next    Seq24 // number of the next datagram
	unacked int   // reliable parts that have not arrived
}

// flightState is the part of a flight that a record has as it is.
type flightState struct {
	Base     Seq24  `cbor:"1,keyasint"`            // the oldest datagram remembered
	Due      Seq24  `cbor:"2,keyasint"`            // the oldest datagram that may still expire
	NextPart uint32 `cbor:"8,keyasint,omitempty"`  // ID of the next part
	Reliable Seq24  `cbor:"9,keyasint,omitempty"`  // number of the next reliable part
	Oldest   Seq24  `cbor:"10,keyasint,omitempty"` // lowest number that has not arrived, if unacked > 0
	// OldestGone says that Oldest has arrived and that the next lowest number is unknown.
	OldestGone bool `cbor:"11,keyasint,omitempty"`
	Literal    bool `cbor:"12,keyasint,omitempty"` // the peer waits for every number
}

// flying is the part of a flight that is needed only while data is in flight.
type flying struct {
	ring     []sentDatagram // by number; its size is a power of two
	parts    []part
	free     []uint32  `cbor:"5,keyasint,omitempty"` // free slots of parts
	resend   []partRef // first in, first out
	resentTo int       // number of parts at the start of resend that were sent already
	done     []outcome // collected for the sender
	repeats  []Seq24   // datagrams to be sent again under their numbers: for a literal peer
	stuck    stuck
}

// outcome is the end of a message.
type outcome struct {
	message   *outgoing
	delivered bool
}

// room reports whether another datagram can be remembered. It forgets old ones to make room.
func (f *flight) room() bool {
	f.trim()
	if f.Literal {
		return f.next.Sub(f.Base) < literalRoom
	}
	if f.next.Sub(f.Base) < maxFlight {
		return true
	}
	switch f.at(f.Base).state {
	case lost:
		f.expire(f.Base)
	case expired:
	default:
		return false
	}
	f.forgetOldest()
	return true
}

// open starts the record of the next datagram. The record counts once it is committed.
func (f *flight) open(now time.Duration) *sentDatagram {
	if f.next.Sub(f.Base) == len(f.ring) {
		f.grow()
	}
	d := f.at(f.next)
	*d = sentDatagram{at: now, parts: d.parts[:0]}
	return d
}

func (f *flight) commit(size int) {
	f.at(f.next).size = int32(size)
	f.next = f.next.Add(1)
}

// track makes a part of a message whose arrival the sender wants to know.
func (f *flight) track(m *outgoing, index uint32) partRef {
	slot := uint32(len(f.parts))
	if last := len(f.free) - 1; last >= 0 {
		slot, f.free = f.free[last], f.free[:last]
	} else {
		f.parts = append(f.parts, part{})
	}
	p := part{message: m, index: index, id: f.NextPart}
	f.NextPart++
	if m.Mode.IsReliable() {
		if f.unacked == 0 {
			f.Oldest, f.OldestGone = f.Reliable, false
		}
		p.reliable, f.Reliable = f.Reliable, f.Reliable.Add(1)
		f.unacked++
	}
	f.parts[slot] = p
	return partRef{Slot: slot, ID: p.id}
}

// get returns the part of a reference, or nil if it has settled.
func (f *flight) get(r partRef) *part {
	if p := &f.parts[r.Slot]; p.message != nil && p.id == r.ID {
		return p
	}
	return nil
}

// acknowledge settles a datagram and its parts. It returns the datagram's previous state.
func (f *flight) acknowledge(n Seq24) (was datagramState) {
	d := f.at(n)
	was, d.state = d.state, settled
	if was == settled {
		return was
	}
	for _, r := range d.parts {
		p := f.get(r)
		if p == nil {
			continue
		}
		m := p.message
		f.drop(r)
		if m.Settled++; m.Settled == m.Parts {
			f.done = append(f.done, outcome{m, true})
		}
	}
	return was
}

// lose marks a datagram in flight as lost. It queues its reliable parts to be sent again, or, for a literal peer, the
// datagram itself.
func (f *flight) lose(n Seq24) {
	f.at(n).state = lost
	if f.Literal {
		f.queueRepeat(n)
	} else {
		f.queueParts(n)
	}
}

func (f *flight) queueParts(n Seq24) {
	for _, r := range f.at(n).parts {
		if p := f.get(r); p != nil && p.message.Mode.IsReliable() && !p.waiting {
			p.waiting = true
			f.resend = append(f.resend, r)
		}
	}
}

// expire ends a datagram after its timeout: its unreliable parts are lost.
func (f *flight) expire(n Seq24) {
	d := f.at(n)
	if d.state == inFlight {
		f.lose(n)
	}
	d.state = expired
	for _, r := range d.parts {
		if p := f.get(r); p != nil && !p.message.Mode.IsReliable() {
			f.done = append(f.done, outcome{p.message, false})
			f.drop(r)
		}
	}
}

// oldestDue returns the oldest datagram that may still expire.
func (f *flight) oldestDue() (n Seq24, ok bool) {
	for ; f.Due != f.next; f.Due = f.Due.Add(1) {
		if s := f.at(f.Due).state; s == inFlight || s == lost {
			return f.Due, true
		}
	}
	return 0, false
}

// resentLately reports whether a datagram carried a repeated part.
func (f *flight) resentLately(n Seq24) bool {
	return slices.ContainsFunc(f.at(n).parts, func(r partRef) bool {
		p := f.get(r)
		return p != nil && p.resent
	})
}

// nextResend returns the first part to be sent again, or nil.
func (f *flight) nextResend() (partRef, *part) {
	for ; f.resentTo < len(f.resend); f.resentTo++ {
		if p := f.get(f.resend[f.resentTo]); p != nil {
			return f.resend[f.resentTo], p
		}
	}
	f.forgetResends()
	return partRef{}, nil
}

func (f *flying) forgetResends() { f.resend, f.resentTo = f.resend[:0], 0 }

// isIdle reports whether nothing is in flight and no outcome waits.
func (f *flight) isIdle() bool {
	f.trim()
	return f.Base == f.next && len(f.done) == 0
}

// abandon forgets everything in flight, and keeps its memory.
func (f *flight) abandon() {
	clear(f.parts)
	clear(f.done)
	f.parts, f.free, f.done, f.repeats = f.parts[:0], f.free[:0], f.done[:0], f.repeats[:0]
	f.stuck = stuck{}
	f.forgetResends()
	f.Base, f.Due, f.unacked = f.next, f.next, 0
}

// trim forgets the oldest datagrams as long as none of their parts is needed any more.
func (f *flight) trim() {
	for f.Base != f.next {
		d := f.at(f.Base)
		if d.state == inFlight || d.state != settled && (f.Literal || f.anyLive(d)) {
			return
		}
		f.forgetOldest()
	}
}

func (f *flight) forgetOldest() {
	if f.Due == f.Base {
		f.Due = f.Due.Add(1)
	}
	f.Base = f.Base.Add(1)
}

func (f *flight) anyLive(d *sentDatagram) bool {
	return slices.ContainsFunc(d.parts, func(r partRef) bool { return f.get(r) != nil })
}

func (f *flight) drop(r partRef) {
	p := &f.parts[r.Slot]
	if p.message.Mode.IsReliable() {
		f.unacked--
		f.OldestGone = f.OldestGone || p.reliable == f.Oldest
	}
	p.message = nil
	f.free = append(f.free, r.Slot)
}

func (f *flight) at(n Seq24) *sentDatagram { return &f.ring[int(n)&(len(f.ring)-1)] }

func (f *flight) grow() {
	grown := make([]sentDatagram, max(4, 2*len(f.ring)))
	for n := f.Base; n != f.next; n = n.Add(1) {
		grown[int(n)&(len(grown)-1)] = *f.at(n)
	}
	f.ring = grown
}

// maxAhead is how many reliable numbers the newest message may be ahead of the oldest one that the peer lacks.
// go-raknet takes more than 2,048 ordered messages behind a missing one for an attack, and blocks our address. RakLib
// acknowledges such messages and drops them.
const maxAhead = 2000

// numbersLeft returns how many new reliable messages fit behind the oldest one that the peer lacks.
func (f *flight) numbersLeft() int {
	room := maxAhead
	if f.Literal {
		room = literalRoom
	}
	if f.unacked == 0 {
		return room
	}
	if f.OldestGone {
		f.findOldest()
	}
	return max(0, room-f.Reliable.Sub(f.Oldest))
}

// findOldest finds the oldest unacknowledged reliable number. There must be one.
func (f *flight) findOldest() {
	f.Oldest, f.OldestGone = f.Reliable, false
	for i := range f.parts {
		if p := &f.parts[i]; p.message != nil && p.message.Mode.IsReliable() && p.reliable.Before(f.Oldest) {
			f.Oldest = p.reliable
		}
	}
}
