package rudp

import "tidegate/codec"

const (
	// maxWaiting bounds the messages that wait for a packet; Options.MaxQueued bounds their bytes.
	maxWaiting = 4096
	// maxJoined bounds the messages of one packet, and therefore the receipts in flight.
	maxJoined = 256
	// keptRoom is the memory in bytes that an empty outbox keeps for the next messages.
	keptRoom = 16 << 10
)

// outbox holds messages until their packet is sent. Their payloads are joined, as on the wire.
type outbox struct {
	payloads []byte
	waiting  []waiting
	taken    int // bytes at the start of payloads that were sent
	gone     int // messages at the start of waiting that were sent
}

// waiting is a message in the outbox.
type waiting struct {
	_       struct{} `cbor:",toarray"`
	Size    int
	Receipt codec.Receipt
}

// bytes returns the number of waiting payload bytes.
func (o *outbox) bytes() int { return len(o.payloads) - o.taken }

// count returns the number of waiting messages.
func (o *outbox) count() int { return len(o.waiting) - o.gone }

// add appends a message.
func (o *outbox) add(payload []byte, r codec.Receipt) {
	if o.taken > len(o.payloads)/2 {
		o.payloads = append(o.payloads[:0], o.payloads[o.taken:]...)
		o.taken = 0
	}
	if o.gone > len(o.waiting)/2 {
		o.waiting = append(o.waiting[:0], o.waiting[o.gone:]...)
		o.gone = 0
	}
	o.payloads = append(o.payloads, payload...)
	o.waiting = append(o.waiting, waiting{Size: len(payload), Receipt: r})
}

// take removes the messages of the next packet: the first one, and later ones while their total stays at most limit
// bytes. Both results belong to the outbox until the next add.
func (o *outbox) take(limit int) (joined []byte, messages []waiting) {
	size, n := 0, 0
	for n < min(o.count(), maxJoined) {
		next := o.waiting[o.gone+n].Size
		if n > 0 && size+next > limit {
			break
		}
		size += next
		n++
	}
	joined, messages = o.payloads[o.taken:o.taken+size], o.waiting[o.gone:o.gone+n]
	o.taken += size
	o.gone += n
	if o.count() == 0 {
		o.empty()
	}
	return joined, messages
}

func (o *outbox) empty() {
	o.payloads, o.waiting, o.taken, o.gone = o.payloads[:0], o.waiting[:0], 0, 0
	if cap(o.payloads) > keptRoom {
		o.payloads = nil
	}
	if cap(o.waiting) > maxJoined {
		o.waiting = nil
	}
}
