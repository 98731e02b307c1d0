package raknet

import (
	"time"

	"tidegate/codec"
)

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
