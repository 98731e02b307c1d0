package bridge

import "tidegate/codec"

// Wrapping is the form of a game's messages on one side of a route: plain, or in the route's envelope. It serves
// programs that act as a game's client or server.
type Wrapping struct {
	envelope *envelope // nil for plain messages
	beside   bool      // the side's messages have an ID beside the payload
}

// WrappingOf returns the form of messages on own's side of a route to other.
func WrappingOf(own, other *codec.Spec, o *Options) Wrapping {
	return Wrapping{envelopeOf(own, other, o), own.IDs == codec.IDBeside}
}

// Wrap returns m, with its ID, in the form that the side's game sends. It appends the payload to b.
func (w Wrapping) Wrap(b []byte, m codec.Message) codec.Message {
	if w.envelope == nil {
		m.Payload, m.HasID = append(b, m.Payload...), w.beside
		return m
	}
	m.HasID = true
	m.Payload, m.HasID = w.envelope.wrap(b, &m), false
	return m
}

// Unwrap calls take with each message inside a received one.
func (w Wrapping) Unwrap(m codec.Message, take func(m codec.Message)) error {
	parts := partsOf(w.envelope, &m)
	for parts.Next(&m) {
		take(m)
	}
	return parts.err
}
