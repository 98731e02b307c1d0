package enet

import (
	"slices"
	"time"

	"tidegate/codec"
)

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

// groupReach is the number of unsequenced messages, back from the newest, that a group window remembers.
const groupReach = 1024

// groups recognizes unsequenced messages that arrive again. A number far from all others counts only when another one
// follows it, and then has a window of its own beside the last one. So no forged message shuts out the honest ones.
type groups struct {
	window
	other    window `record:"inline+4"` // the one before a jump
	hasOther bool   `cbor:"7,keyasint,omitempty"`
	far      uint16 `cbor:"3,keyasint,omitempty"` // a number far from both windows
	hasFar   bool   `cbor:"4,keyasint,omitempty"`
}

// window remembers the numbers up to the newest one.
type window struct {
	newest uint16                  `cbor:"1,keyasint"`
	seen   [groupReach / 64]uint64 `cbor:"2,keyasint,omitempty" record:"list"` // by number modulo groupReach
}

func (w *window) bit(n uint16) (word *uint64, mask uint64) {
	n %= groupReach
	return &w.seen[n/64], 1 << (n % 64)
}

func (w *window) reaches(n uint16) bool {
	gap := int(int16(n - w.newest))
	return gap > -groupReach && gap <= groupReach
}

// take records a number within reach. It returns an error for a repeated one.
func (w *window) take(n uint16) error {
	if int16(n-w.newest) > 0 {
		for w.newest != n {
			w.newest++
			word, mask := w.bit(w.newest)
			*word &^= mask
		}
	}
	word, mask := w.bit(n)
	if *word&mask != 0 {
		return codec.ErrDuplicate
	}
	*word |= mask
	return nil
}

// take records a number. It returns an error for a repeated number, or one that nothing confirms yet.
func (g *groups) take(n uint16) error {
	switch {
	case g.reaches(n):
	case g.hasOther && g.other.reaches(n):
		g.window, g.other = g.other, g.window
	case g.hasFar && int16(n-g.far) > 0 && n-g.far <= groupReach:
		g.other, g.hasOther, g.hasFar = g.window, true, false
		g.window = window{newest: n}
	default:
		g.far, g.hasFar = n, true
		return codec.ErrWindow
	}
	return g.window.take(n)
}

// maxAcks bounds the waiting acknowledgements.
const maxAcks = 1024

// ack is an acknowledgement that we must send.
type ack struct {
	_         struct{} `cbor:",toarray"`
	Channel   uint8
	Seq, Time uint16
}

// acks holds the acknowledgements that wait for a datagram.
type acks struct {
	list  []ack
	head  int
	since time.Duration // when the first of them began to wait
}

func (a *acks) len() int { return len(a.list) - a.head }

// add queues the acknowledgement of a command. time is that of its datagram.
func (a *acks) add(now time.Duration, cmd *command, time uint16) {
	if a.len() == 0 {
		a.since = now
	}
	a.list = append(a.list, ack{Channel: cmd.channel, Seq: cmd.seq, Time: time})
}

// has reports whether the acknowledgement of a command waits already.
func (a *acks) has(cmd *command) bool {
	return slices.ContainsFunc(a.list[a.head:], func(w ack) bool { return w.Channel == cmd.channel && w.Seq == cmd.seq })
}

// append appends acknowledgements as long as they fit into room bytes.
func (a *acks) append(b []byte, room int) []byte {
	for ; a.len() > 0 && room >= ackLen; room -= ackLen {
		one := a.list[a.head]
		b = appendCommand(b, kindAck, 0, one.Channel, one.Seq)
		b = be.AppendUint16(be.AppendUint16(b, one.Seq), one.Time)
		a.head++
	}
	if a.len() == 0 {
		a.list, a.head = a.list[:0], 0
		if cap(a.list) > keptMessages*4 {
			a.list = nil
		}
	}
	return b
}

// peerClock knows a peer's clock. It recognizes a forged goodbye, which names another time.
type peerClock struct {
	offset uint16    `cbor:"23,keyasint,omitempty"`
	at     time.Time `cbor:"24,keyasint,omitempty"` // when offset was learned; zero: never
	far    int16     // how much the last datagram was off, if that was too much; 0: it was not
	farAt  time.Time
}

// Tolerances of a datagram's time, in ms.
const (
	clockTolerance = 8000 // the greatest change of a datagram's delay, and of a clock, between two datagrams
	clockJitter    = 250  // the same between two datagrams that show together that the clock was set
)

func (p *peerClock) set(now time.Time, clock uint16) { *p = peerClock{offset: clock, at: now} }

// allows reports whether a datagram's time is plausible, and learns from it if it is. A machine's clock may be set, or
// stand still with the machine. So a time is plausible, too, if an earlier datagram was off by as much just before.
func (p *peerClock) allows(now time.Time, clock uint16) bool {
	late := int16(clock - p.offset - uint16(now.Sub(p.at).Milliseconds()))
	switch {
	case p.at.IsZero(), isWithin(late, clockTolerance):
	case p.far != 0 && now.After(p.farAt) && isWithin(late-p.far, clockJitter):
	default:
		p.far, p.farAt = late, now
		return false
	}
	p.set(now, clock)
	return true
}

func isWithin(n, bound int16) bool { return -bound <= n && n <= bound }
