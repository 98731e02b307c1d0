package raknet

import (
	"time"

	"tidegate/codec"
)

// packer fills one datagram: first with resends, then with waiting messages, each queue in order.
type packer struct {
	s        *sender
	now      time.Duration
	b        []byte
	start    int // start of the datagram in b
	datagram *sentDatagram
	numbers  int // reliable numbers that may be assigned
}

func (p *packer) packResends() {
	f := &p.s.flight
	for ref, again := f.nextResend(); again != nil; ref, again = f.nextResend() {
		if !p.pack(again.message, again.index, again.reliable) {
			return
		}
		p.datagram.parts = append(p.datagram.parts, ref)
		again.waiting, again.resent = false, true
		f.resentTo++
		again.message.Again.add(again.index)
		p.s.Resent++
		p.s.ReliableAt = p.now
	}
}

// packMessages packs the game's messages. While both small and bulk messages wait, each kind is first in every other
// datagram, so that neither starves.
func (p *packer) packMessages(bulk bool) {
	s := p.s
	if !bulk {
		p.packQueue(&s.small)
		return
	}
	first, second := &s.small, &s.bulk
	if s.BulkTurn && s.bulk.size > 0 {
		first, second = second, first
	}
	s.BulkTurn = first == &s.small
	p.packQueue(first)
	p.packQueue(second)
}

func (p *packer) packQueue(q *queue) {
	for m := q.peek(); m != nil; m = q.peek() {
		if p.overdue(m) {
			p.s.leave(q, m)
			p.s.flight.done = append(p.s.flight.done, outcome{m, false})
			continue
		}
		if m.Parts == 0 {
			if p.isSplit(m) && !p.s.maySplit() || q == &p.s.bulk && p.s.isBehindSmall(m) {
				return
			}
			p.s.start(m)
		}
		if !p.packNext(m) {
			return
		}
		if m.Sent == m.Parts {
			p.s.leave(q, m)
		}
		if !m.Mode.IsReliable() && m.Receipt == 0 {
			p.s.finish(m)
		}
	}
}

// packNext packs the next part of a message in its first transmission.
func (p *packer) packNext(m *outgoing) bool {
	if m.Mode.IsReliable() {
		if p.numbers == 0 {
			return false
		}
		p.numbers--
	}
	if !p.pack(m, m.Sent, p.s.flight.Reliable) {
		return false
	}
	if m.Mode.IsReliable() || m.Receipt != 0 {
		p.datagram.parts = append(p.datagram.parts, p.s.flight.track(m, m.Sent))
	}
	if m.Mode.IsReliable() {
		p.s.ReliableAt = p.now
	}
	m.Sent++
	return true
}

// pack writes one part as a capsule, or reports that it does not fit. A datagram has room for the longest capsule, so
// the first always fits.
func (p *packer) pack(m *outgoing, index uint32, reliable Seq24) bool {
	c := capsule{
		mode: m.Mode, channel: m.Channel, reliable: reliable, sequence: m.Sequence, order: m.Order, payload: m.Payload,
	}
	if m.Parts > 1 {
		from := int(index) * p.s.partSize()
		c.payload = m.Payload[from:min(from+p.s.partSize(), len(m.Payload))]
		c.split, c.splitCount, c.splitID, c.splitIndex = true, m.Parts, m.SplitID, index
	}
	if index == m.Parts-1 {
		c.pad = m.Pad
	}
	if len(p.b)-p.start+c.size() > p.s.datagramSize() {
		return false
	}
	p.b = c.append(p.b)
	return true
}

// overdue reports whether an unreliable message waited too long to be useful. A message that must be split will travel
// reliably, and is therefore kept.
func (p *packer) overdue(m *outgoing) bool {
	return !m.Mode.IsReliable() && !p.isSplit(m) && p.now-m.QueuedAt > queueLife
}

func (p *packer) isSplit(m *outgoing) bool { return len(m.Payload) > p.s.partSize() }

// outgoing is a message on its way to the peer: queued, then in flight as one part or several.
type outgoing struct {
	Payload  []byte        `cbor:"1,keyasint"` // a recycled buffer
	Pad      uint8         `cbor:"2,keyasint,omitempty"`
	Mode     codec.Mode    `cbor:"3,keyasint"`
	Channel  uint8         `cbor:"4,keyasint,omitempty"`
	Receipt  codec.Receipt `cbor:"5,keyasint,omitempty"`
	QueuedAt time.Duration `cbor:"6,keyasint,omitempty"`
	Control  bool          `cbor:"7,keyasint,omitempty"` // RakNet's own, not the game's
	InLine   bool          `cbor:"8,keyasint,omitempty"` // counted by its channel while it waits

	// Set when its first part is sent.
	Order    Seq24  `cbor:"9,keyasint,omitempty"`
	Sequence Seq24  `cbor:"10,keyasint,omitempty"`
	SplitID  uint16 `cbor:"11,keyasint,omitempty"`
	Parts    uint32 `cbor:"12,keyasint,omitempty"` // 1 for a message that is not split
	Sent     uint32 `cbor:"13,keyasint,omitempty"` // parts sent at least once
	Settled  uint32 `cbor:"14,keyasint,omitempty"` // parts that arrived
	Numbered bool   `cbor:"15,keyasint,omitempty"` // it has its number in its channel, and begins again

	Again partSet `cbor:"16,keyasint,omitzero"` // parts that were sent again
}

// queue is a first-in, first-out ring of messages whose size is a power of two.
type queue struct {
	ring        []*outgoing
	first, size int
}

func (q *queue) push(m *outgoing) {
	if q.size == len(q.ring) {
		grown := make([]*outgoing, max(4, 2*len(q.ring)))
		for i := range q.size {
			grown[i] = *q.at(i)
		}
		q.ring, q.first = grown, 0
	}
	*q.at(q.size) = m
	q.size++
}

// at returns the place of message i, from the oldest one.
func (q *queue) at(i int) **outgoing { return &q.ring[(q.first+i)&(len(q.ring)-1)] }

// peek returns the oldest message, or nil.
func (q *queue) peek() *outgoing {
	if q.size == 0 {
		return nil
	}
	return q.ring[q.first]
}

// pop removes the message that peek returned.
func (q *queue) pop() {
	q.ring[q.first] = nil
	q.first = (q.first + 1) & (len(q.ring) - 1)
	q.size--
}
