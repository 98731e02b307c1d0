package raknet

import (
	"time"

	"tidegate/codec"
)

// outgoing is a message on its way to the peer: queued, then in flight as one part or several.
type outgoing struct {
	payload  []byte // a recycled buffer
	pad      uint8
	mode     codec.Mode
	channel  uint8
	receipt  codec.Receipt
	queuedAt time.Duration
	control  bool // RakNet's own, not the game's
	inLine   bool // counted by its channel while it waits
	numbered bool // it has its number in its channel, and begins again

	// Set when its first part is sent.
	order, sequence Seq24
	splitID         uint16
	parts           uint32 // 1 for a message that is not split
	sent            uint32 // parts sent at least once
	settled         uint32 // parts that arrived

	again partSet // parts that were sent again
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
