package bridge

import (
	"errors"
	"time"

	"tidegate/codec"
	"tidegate/proxy/stats"
)

// Sender sends messages to one side of a session. It keeps waiting messages, and copies of messages whose fate is not
// known. The zero value has no connection.
type Sender struct {
	Conn  codec.Conn // nil while there is no connection
	Down  bool       // Conn has ended
	Keeps bool       // the Sender keeps a copy of each reliable message until its delivery
	Away  bool       // there is no peer for a while: the Sender keeps messages to it

	order order
	kept  resends
	joint *aggregate // nil until the first message joins
}

// Live reports whether there is a connection that has not ended.
func (s *Sender) Live() bool { return s.Conn != nil && !s.Down }

// Takes reports whether messages may be sent.
func (s *Sender) Takes() bool { return s.Live() || s.Away }

// Stored returns the bytes of messages that wait for their turn, and of the copies of messages whose fate is not known.
func (s *Sender) Stored() int { return s.order.size() + s.kept.size() }

// Fill returns the used part of a queue of limit bytes, for the messages that wait for their turn and for the copies.
// Copies for a peer that is away do not count: none of them leaves by waiting.
func (s *Sender) Fill(limit float64) (waiting, copied float64) {
	if !s.Away {
		copied = s.kept.fill(limit)
	}
	return s.order.fill(limit), copied
}

// HasLost reports whether lost messages wait for Resume or Purge.
func (s *Sender) HasLost() bool { return s.kept.lost > 0 }

// careFor returns the care for a message whose Direction asks for the care c.
func (s *Sender) careFor(c care, want codec.Mode) care {
	if s.Away && c != careResend && want.IsReliable() || s.Keeps && c == careNone && want.IsReliable() {
		return careHold
	}
	return c
}

// errAway reports that there is no server, and that the message does not wait for one.
var errAway = errors.New("no server at the moment")

// send gives a message to the connection. Without a connection, a kept message waits.
func (s *Sender) send(now time.Time, m *codec.Message) error {
	switch {
	case !s.Away:
		return s.Conn.Send(now, *m)
	case m.Receipt&resendBit != 0:
		return nil
	}
	return errAway
}

// maxAggregate is the largest size of an envelope that joins small messages. Such a payload fits into one datagram on
// most paths.
const maxAggregate = 1200

// aggregate is one envelope for the messages of a turn to one side. These messages share a mode and a channel. The
// envelope leaves when the turn ends, and before any message that has no room in it. So order is kept.
type aggregate struct {
	direction *Direction
	message   codec.Message // Payload begins with the envelope's header; HasID is the joined messages' value
}

func (a *aggregate) isEmpty() bool { return len(a.message.Payload) == 0 }

// takes reports whether a message may share the envelope.
func (a *aggregate) takes(m *codec.Message) bool {
	have := &a.message
	return have.Mode == m.Mode && have.Channel == m.Channel && have.HasID == m.HasID &&
		len(have.Payload)+frameOverhead+len(m.Payload) <= maxAggregate
}

// frameOverhead is the size of a frame without its payload, in bytes: a length and an ID.
const frameOverhead = 4

// join adds a message to the aggregate, which leaves at the end of the turn.
func (c *Carrier) join(now time.Time, to *Sender, d *Direction, m *codec.Message) {
	if to.joint == nil {
		to.joint = &aggregate{message: codec.Message{Payload: make([]byte, 0, maxAggregate)}}
	}
	a := to.joint
	if !a.isEmpty() && !a.takes(m) {
		c.sendJoined(now, to)
	}
	if a.isEmpty() {
		payload := d.seal.begin(a.message.Payload, m.HasID)
		a.direction, a.message = d, *m
		a.message.Payload = payload
	}
	a.message.Payload = d.seal.add(a.message.Payload, m)
}

// SendJoined sends the joined messages of a turn.
func (c *Carrier) SendJoined(now time.Time, to *Sender) {
	c.ended = false
	c.sendJoined(now, to)
}

func (c *Carrier) sendJoined(now time.Time, to *Sender) {
	a := to.joint
	if a == nil || a.isEmpty() {
		return
	}
	m := a.message
	m.Pad, m.HasID = 0, false
	a.message.Payload = m.Payload[:0]
	if cap(m.Payload) > maxAggregate {
		a.message.Payload = make([]byte, 0, maxAggregate) // a large buffer is not kept
	}
	if !to.Takes() {
		c.fail(Failure{Why: stats.DropClosing, Size: len(m.Payload)})
		return
	}
	c.send(now, to, a.direction, &m)
}

// MostParts is the largest number of messages in one envelope. A received message may have some megabytes, and could
// otherwise hold a million of them.
const MostParts = 1024

// errParts reports an envelope with more than MostParts messages.
var errParts = errors.New("more than 1024 messages in one envelope")

// Parts reads a received message: the messages of its envelope one by one, or the message itself on a side without
// envelopes.
type Parts struct {
	envelope *envelope // nil: none
	message  codec.Message
	rest     []byte // not read yet
	left     int    // number of messages that may follow
	begun    bool
	hasID    bool
	err      error
}

// Opens reports whether received messages are in envelopes. All others are their only part.
func (d *Direction) Opens() bool { return d.open != nil }

// Parts returns the messages in m, which was received on the near side.
func (d *Direction) Parts(m *codec.Message) Parts { return partsOf(d.open, m) }

func partsOf(e *envelope, m *codec.Message) Parts {
	p := Parts{envelope: e, message: *m, rest: m.Payload, left: 1}
	if e == nil {
		return p
	}
	if e.framed() {
		p.left = MostParts
	}
	p.rest, p.hasID, p.err = e.open(m.Payload)
	return p
}

// Next reads the next message into m. It reports false if there is none that may be read.
func (p *Parts) Next(m *codec.Message) bool {
	if p.err != nil || p.left == 0 || p.begun && len(p.rest) == 0 {
		return false
	}
	p.begun = true
	p.left--
	*m = p.message
	if p.envelope == nil {
		p.rest = nil
		return true
	}
	p.rest, p.err = p.envelope.next(p.rest, p.hasID, m)
	return p.err == nil
}

// Head returns the bytes that begin m, a message that Next read, on the wire: the envelope's packet byte, or the
// payload.
func (p *Parts) Head(m *codec.Message) []byte {
	if p.envelope != nil && p.envelope.hasByte {
		return p.message.Payload[:1]
	}
	return m.Payload
}

// Unread reports that a part of the message was not read: it is not in the envelope's form, or one message too many.
// Messages that are never read break the promise of a reliable one, unless the Direction is lossy.
func (d *Direction) Unread(p *Parts) (f Failure, failed bool) {
	switch {
	case p.err != nil:
		return Failure{Why: stats.DropEnvelope, Size: len(p.message.Payload), Err: p.err}, true
	case len(p.rest) > 0 && p.left == 0:
		ends := p.message.Mode.IsReliable() && !d.lossy
		return Failure{Why: stats.DropLimit, Size: len(p.rest), Err: errParts, Ends: ends}, true
	}
	return Failure{}, false
}

// Failure is a message that was not sent.
type Failure struct {
	Why  stats.Drop
	Size int
	Err  error
	// Ends says that the session must end. The message's promise cannot be kept, and its Direction does not allow a
	// weaker one.
	Ends bool
}

// HasFailed reports whether there is a failure to take.
func (c *Carrier) HasFailed() bool { return c.taken < len(c.failures) }

// Failure takes the oldest failure.
func (c *Carrier) Failure() Failure {
	f := c.failures[c.taken]
	if c.taken++; !c.HasFailed() {
		c.failures, c.taken = c.failures[:0], 0
	}
	return f
}

func (c *Carrier) fail(f Failure) { c.failures = append(c.failures, f) }

// undeclared drops a message that no table of the route has.
func (c *Carrier) undeclared(d *Direction, m *codec.Message) {
	c.ended = d.strict
	c.fail(Failure{Why: stats.DropUndeclared, Size: len(m.Payload), Ends: d.strict})
}
