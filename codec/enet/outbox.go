package enet

import "tidegate/codec"

// Bounds of a queue, and of the memory that a connection keeps for later.
const (
	maxMessages  = 16384   // waiting or unacknowledged ones; Options.MaxQueued bounds their bytes
	keptMessages = 64      // unused messages that are kept
	keptBuffer   = 2 << 10 // bytes of a buffer that is kept
)

// message is a message from Send until its transmission or, if it is reliable, its acknowledgement.
type message struct {
	_       struct{} `cbor:",toarray"`
	Payload []byte
	Mode    codec.Mode
	Channel uint8
	Receipt codec.Receipt
	Order   uint64 // order of Send

	Start   uint16 // number of its first fragment
	Follows uint16 // the reliable number that an unreliable message follows
	Count   uint32 // fragments; 1 for a message in one command; 0 before its first transmission
	Sent    uint32
	Unacked uint32 // unacknowledged fragments
}

// fifo is a queue of messages.
type fifo struct {
	list []*message
	head int
}

func (q *fifo) len() int { return len(q.list) - q.head }

func (q *fifo) first() *message {
	if q.len() == 0 {
		return nil
	}
	return q.list[q.head]
}

func (q *fifo) push(m *message) {
	if q.head > 0 && len(q.list) == cap(q.list) {
		n := copy(q.list, q.list[q.head:])
		q.list, q.head = q.list[:n], 0
	}
	q.list = append(q.list, m)
}

func (q *fifo) pop() {
	q.list[q.head] = nil
	if q.head++; q.head == len(q.list) {
		q.list, q.head = q.list[:0], 0
		if cap(q.list) > keptMessages {
			q.list = nil
		}
	}
}

// outbox holds the messages that wait to be sent, and counts the unacknowledged ones.
type outbox struct {
	reliable, unreliable fifo
	free                 []*message
	bytes, count         int // of all messages that are not done
	most                 int // bytes of one message that count
	uncounted            int // the other ones
	order                uint64
}

// counted returns the bytes that count against the bound of the queue.
func (o *outbox) counted() int { return o.bytes - o.uncounted }

// hold counts a message, and drop stops counting it.
func (o *outbox) hold(n int) { o.bytes, o.uncounted = o.bytes+n, o.uncounted+max(n-o.most, 0) }
func (o *outbox) drop(n int) { o.bytes, o.uncounted = o.bytes-n, o.uncounted-max(n-o.most, 0) }

// add queues a copy of a message.
func (o *outbox) add(m *codec.Message) {
	var q *message
	if n := len(o.free); n > 0 {
		q, o.free = o.free[n-1], o.free[:n-1]
	} else {
		q = new(message)
	}
	o.order++
	*q = message{
		Payload: append(q.Payload[:0], m.Payload...), Mode: m.Mode, Channel: m.Channel, Receipt: m.Receipt, Order: o.order,
	}
	o.hold(len(m.Payload))
	o.count++
	if m.Mode == codec.ReliableOrdered {
		o.reliable.push(q)
	} else {
		o.unreliable.push(q)
	}
}

// done frees a message's memory.
func (o *outbox) done(m *message) {
	o.drop(len(m.Payload))
	o.count--
	if len(o.free) < keptMessages && cap(m.Payload) <= keptBuffer {
		o.free = append(o.free, m)
	}
}
