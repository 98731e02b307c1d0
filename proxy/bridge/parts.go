package bridge

import (
	"errors"

	"tidegate/codec"
	"tidegate/proxy/stats"
)

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
