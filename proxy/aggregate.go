package proxy

import (
	"time"

	"tidegate/codec"
)

// maxAggregate is how many bytes small messages join to: what fits into one datagram of most paths.
const maxAggregate = 1200

// aggregate joins the messages of a turn towards a side, of one mode and channel, in one envelope. It leaves when the turn
// ends, and before any message that has no room in it, so order is kept.
type aggregate struct {
	lane    *lane
	message codec.Message // the payload has the envelope's first bytes; HasID is that of the messages in it
}

func (a *aggregate) isEmpty() bool { return len(a.message.Payload) == 0 }

// takes reports whether a message may share the envelope.
func (a *aggregate) takes(m *codec.Message) bool {
	have := &a.message
	return have.Mode == m.Mode && have.Channel == m.Channel && have.HasID == m.HasID &&
		len(have.Payload)+frameOverhead+len(m.Payload) <= maxAggregate
}

// frameOverhead is what a frame has beside its payload, in bytes: its length and its ID.
const frameOverhead = 4

// join adds a message to those that leave together at the end of the turn.
func (r *Relay) join(now time.Time, e *entry, to *side, l *lane, m *codec.Message) {
	if to.joint == nil {
		to.joint = &aggregate{message: codec.Message{Payload: make([]byte, 0, maxAggregate)}}
	}
	a := to.joint
	if !a.isEmpty() && !a.takes(m) {
		r.sendAggregate(now, e, to)
	}
	if a.isEmpty() {
		payload := l.seal.begin(a.message.Payload, m.HasID)
		a.lane, a.message = l, *m
		a.message.Payload = payload
	}
	a.message.Payload = l.seal.add(a.message.Payload, m)
	r.mark(e)
}

// sendJoint sends what has been joined towards both sides.
func (r *Relay) sendJoint(now time.Time, e *entry) {
	r.sendAggregate(now, e, &e.Value.client)
	r.sendAggregate(now, e, &e.Value.upstream)
}

func (r *Relay) sendAggregate(now time.Time, e *entry, to *side) {
	a := to.joint
	if a == nil || a.isEmpty() {
		return
	}
	m := a.message
	m.Pad, m.HasID = 0, false
	a.message.Payload = m.Payload[:0] // before send, which may end the session and come back here
	if cap(m.Payload) > maxAggregate {
		a.message.Payload = make([]byte, 0, maxAggregate) // a large message needs not stay
	}
	if !to.takes() {
		r.drop(now, DropClosing, e.Value.door, e.Key.Client, len(m.Payload), nil)
		return
	}
	r.send(now, e, to, a.lane, &m)
}
