package rtype

import (
	"encoding/binary"
	"time"

	"tidegate/codec"
	"tidegate/codec/internal/events"
)

// maxDatagram is the size of the receive buffer of the game's clients.
const maxDatagram = 1024

// maxReceipts bounds the receipts that Send takes before Poll returns them. Poll is wanted answerDelay after the
// first.
const (
	maxReceipts = 4096
	answerDelay = 10 * time.Millisecond
)

// state says how far a connection has come.
type state uint8

const (
	opening state = iota // client: Hello is sent; server: the proxy is deciding
	connected
	closed
)

// link is the part that both sides of a connection share.
type link struct {
	options  *Options
	state    state  `cbor:"3,keyasint"`
	format   format `record:"inline"`
	mask     uint32 `cbor:"7,keyasint,omitempty" secret:"true"` // converts wide entities to canonical ones
	initial  initialisation
	sizes    sizes
	heard    time.Time `cbor:"9,keyasint,omitempty"`  // when the peer's latest message arrived
	answerAt time.Time `cbor:"10,keyasint,omitempty"` // when Poll wants to be called for receipts, if any wait
	out      outbox
	events   events.Queue
	scratch  []byte      // holds payloads that Poll lends
	stats    codec.Stats `cbor:"12,keyasint"`
}

func newLink(o *Options, now time.Time) link {
	return link{options: o, format: o.format(), heard: now}
}

// Poll returns the next event.
func (l *link) Poll() (codec.Event, bool) { return l.events.Poll() }

// Stats returns the connection's figures so far.
func (l *link) Stats() codec.Stats {
	s := l.stats
	s.Queued = l.out.bytes()
	return s
}

// Announce returns ErrMode, because the protocol has no announcements.
func (l *link) Announce(time.Time, codec.EventKind, uint16) error { return codec.ErrMode }

// check returns the errors of Send that do not depend on the message's content.
func (l *link) check(m *codec.Message) error {
	switch {
	case l.state == closed:
		return codec.ErrClosed
	case m.Mode != codec.Unreliable:
		return codec.ErrMode
	case m.Receipt != 0 && l.events.Len() >= maxReceipts:
		return codec.ErrFull
	}
	return nil
}

// answer settles a receipt at once, because the protocol never reports whether a message arrived.
func (l *link) answer(now time.Time, r codec.Receipt) {
	if r == 0 {
		return
	}
	if l.events.Len() == 0 {
		l.answerAt = now.Add(answerDelay)
	}
	l.events.Answer(r, false)
}

// put queues one instruction in the peer's format.
func (l *link) put(in *instruction) error {
	width := l.format.entityWidth()
	n := in.len(width)
	switch {
	case in.op == nextFrame && l.format.document:
		return errNoForm
	case width == 2 && in.entity > maxNarrow || n > maxDatagram:
		return codec.ErrTooLarge
	case !l.hasRoom(n):
		return codec.ErrFull
	}
	size, err := l.sizes.of(in.component)
	endless := in.op == update && (err != nil || size == unknownSize)
	entity := in.entity
	in.entity = l.masked(entity)
	l.out.end(in.append(l.out.begin(), &l.format), endless || !l.format.document)
	in.entity = entity
	return nil
}

// masked converts an entity between its canonical number and the number that the peer knows.
func (l *link) masked(entity uint32) uint32 {
	if l.format.entityWidth() == 2 {
		return entity
	}
	return entity ^ l.mask
}

func (l *link) hasRoom(n int) bool { return l.out.bytes()+recordHead+n <= l.options.MaxQueued }

// announce stores the names of the components, from any source.
func (l *link) announce(n initialisation) {
	l.initial, l.sizes = n, sizesOf(&n, l.options.Components)
}

// take reports a message of the peer.
func (l *link) take(payload []byte) {
	l.events.Push(codec.Event{Kind: codec.Received, Message: codec.Message{Payload: payload}})
}

// takeInstruction reports an instruction in canonical form. from holds the bytes that it was parsed from.
func (l *link) takeInstruction(in *instruction, from []byte) {
	if l.format.isCanonical() && l.mask == 0 {
		l.take(from)
		return
	}
	start := len(l.scratch)
	l.scratch = in.append(l.scratch, &canonical)
	l.take(l.scratch[start:])
}

// connect starts the session.
func (l *link) connect(now time.Time) {
	l.state = connected
	l.heard = now
	l.events.Push(codec.Event{Kind: codec.Connected})
}

// lose ends the connection when the peer is gone. Waiting messages are dropped.
func (l *link) lose(reason codec.Reason) {
	l.out.drop()
	l.finish(reason)
}

// finish ends the connection. Messages that a session has queued are still sent.
func (l *link) finish(reason codec.Reason) {
	if l.state != connected {
		l.out.drop()
	}
	l.state = closed
	l.events.Push(codec.Event{Kind: codec.Disconnected, Reason: reason})
}

// outbox is a first-in first-out log of wire messages that wait for Transmit. A record is two bytes of length and the
// message. The top bit of the length says that the message has to end its datagram.
type outbox struct {
	log  []byte
	read int
}

const (
	recordHead = 2
	last       = 1 << 15
)

// bytes returns the number of bytes that the outbox holds.
func (o *outbox) bytes() int { return len(o.log) - o.read }

// begin opens a record. The caller appends one message to the result and passes that to end.
func (o *outbox) begin() []byte {
	if o.read >= o.bytes() { // reclaim read bytes; this moves no more bytes than it reclaims
		o.log, o.read = append(o.log[:0], o.log[o.read:]...), 0
	}
	return append(o.log, 0, 0)
}

// end closes the record that begin opened.
func (o *outbox) end(b []byte, isLast bool) {
	start := len(o.log)
	head := uint16(len(b) - start - recordHead)
	if isLast {
		head |= last
	}
	binary.LittleEndian.PutUint16(b[start:], head)
	o.log = b
}

// next appends the oldest message to b, and the following ones that fit in the same datagram. A message that has to
// end its datagram is the last.
func (o *outbox) next(b []byte) ([]byte, bool) {
	size := 0
	for o.bytes() > 0 {
		head := binary.LittleEndian.Uint16(o.log[o.read:])
		n := int(head &^ last)
		if size > 0 && size+n > maxDatagram {
			break
		}
		b = append(b, o.log[o.read+recordHead:][:n]...)
		o.read += recordHead + n
		if size += n; head&last != 0 {
			break
		}
	}
	return b, size > 0
}

// drop removes all records.
func (o *outbox) drop() { o.log, o.read = o.log[:0], 0 }

// pingTries is the number of pings within PongTimeout before a client is given up: a ping may be lost.
const pingTries = 4

// pinger pings a server's client every interval, and more often while the client has not answered.
// docs/protocols/rtype.md#session
type pinger struct {
	interval, timeout time.Duration
	next              time.Time `cbor:"5,keyasint,omitempty"` // zero: no pings
	// owedSince says since when the client has owed an answer; zero: it does not.
	owedSince time.Time `cbor:"6,keyasint,omitempty"`
	// timedAt is the send time of a ping whose answer measures the round trip; zero: none.
	timedAt time.Time     `cbor:"7,keyasint,omitempty"`
	rtt     time.Duration `cbor:"8,keyasint,omitempty"`
}

func (p *pinger) start(now time.Time) {
	if p.interval > 0 {
		p.next = now.Add(p.interval)
	}
}

// deadline returns when the client is given up; zero: never.
func (p *pinger) deadline() time.Time {
	if p.owedSince.IsZero() {
		return time.Time{}
	}
	return p.owedSince.Add(p.timeout)
}

// takeDue reports whether a ping is due, and counts it as sent.
func (p *pinger) takeDue(now time.Time) bool {
	if p.next.IsZero() || now.Before(p.next) {
		return false
	}
	p.timedAt = time.Time{}
	if p.owedSince.IsZero() {
		p.owedSince, p.timedAt = now, now
	}
	p.next = now.Add(p.timeout / pingTries)
	return true
}

// heard records a message of the client.
func (p *pinger) heard() {
	if !p.owedSince.IsZero() {
		p.next = p.owedSince.Add(p.interval)
		p.owedSince = time.Time{}
	}
}

// answered records a pong.
func (p *pinger) answered(now time.Time) {
	if p.timedAt.IsZero() {
		return
	}
	sample := now.Sub(p.timedAt)
	p.timedAt = time.Time{}
	if p.rtt == 0 {
		p.rtt = sample
	}
	p.rtt += (sample - p.rtt) / 8
}
