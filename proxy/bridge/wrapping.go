package bridge

import "tidegate/codec"

// Wrapping is the form of a game's messages on one side of a route: as they are, or in the route's envelope. It is
// for programs that stand in for games, and so must say and understand what a game would.
type Wrapping struct {
	envelope *envelope // nil: as they are
	beside   bool      // the side's messages have an ID beside the payload
}

// WrappingOf returns the form on the side of a protocol, towards another protocol.
func WrappingOf(own, other *codec.Spec, o *Options) Wrapping {
	return Wrapping{envelopeOf(own, other, o), own.IDs == codec.IDBeside}
}

// Wrap returns m, with its ID, as the side's game sends it. The payload is appended to b.
func (w Wrapping) Wrap(b []byte, m codec.Message) codec.Message {
	if w.envelope == nil {
		m.Payload, m.HasID = append(b, m.Payload...), w.beside
		return m
	}
	m.HasID = true
	m.Payload, m.HasID = w.envelope.wrap(b, &m), false
	return m
}

// Unwrap gives each message in a received one to take.
func (w Wrapping) Unwrap(m codec.Message, take func(m codec.Message)) error {
	if w.envelope == nil {
		take(m)
		return nil
	}
	rest, hasID, err := w.envelope.open(m.Payload)
	for first := true; err == nil && (first || len(rest) > 0); first = false {
		if rest, err = w.envelope.next(rest, hasID, &m); err == nil {
			take(m)
		}
	}
	return err
}
