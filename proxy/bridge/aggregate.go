package bridge

import (
	"time"

	"tidegate/codec"
	"tidegate/proxy/stats"
)

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
