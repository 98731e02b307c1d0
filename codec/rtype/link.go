package rtype

import (
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
	state    state
	format   format
	mask     uint32 // converts wide entities between the wire and canonical messages
	initial  initialisation
	sizes    sizes
	heard    time.Time // when the peer's latest message arrived
	answerAt time.Time // when Poll wants to be called for receipts, if any wait
	out      outbox
	events   events.Queue
	scratch  []byte // holds payloads that Poll lends
	stats    codec.Stats
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
