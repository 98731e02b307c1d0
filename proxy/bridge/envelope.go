package bridge

import (
	"encoding/binary"
	"errors"

	"tidegate/codec"
	"tidegate/internal/policy"
)

// errEnvelope reports a message that is not in the route's envelope, though its protocol has no message IDs.
var errEnvelope = errors.New("message not in the route's envelope")

// envelope writes and reads message IDs for a protocol whose messages have none:
//
//	id         packet byte*, ID u16 little-endian, payload
//	framed     packet byte*, then each: length u16 little-endian of the rest, ID u16 little-endian, payload
//	aggregate  packet byte*, compression (0, none)*, then each as framed
//
// * only in protocols whose messages begin with a byte that names them. A message without an ID has the packet byte
// plus one, and no ID field. In a protocol without a packet byte, such a message travels with the raw ID.
type envelope struct {
	kind     policy.Envelope
	hasByte  bool
	packetID byte
	rawID    uint16
}

// uncompressed marks an aggregate without compression. Tidegate writes and reads no other.
const uncompressed = 0

// joins reports whether the messages of one turn share an envelope.
func (e *envelope) joins() bool { return e.kind == policy.EnvelopeAggregate && e.hasByte }

// framed reports whether each message has its length before it.
func (e *envelope) framed() bool {
	return e.kind == policy.EnvelopeFramed || e.kind == policy.EnvelopeAggregate
}

// wrap appends m to b as the far side's payload.
func (e *envelope) wrap(b []byte, m *codec.Message) []byte { return e.add(e.begin(b, m.HasID), m) }

// begin appends the header before the first message.
func (e *envelope) begin(b []byte, hasID bool) []byte {
	if !e.hasByte {
		return b
	}
	if hasID {
		b = append(b, e.packetID)
	} else {
		b = append(b, e.packetID+1)
	}
	if e.kind == policy.EnvelopeAggregate {
		b = append(b, uncompressed)
	}
	return b
}

// add appends a message after begin or an earlier add.
func (e *envelope) add(b []byte, m *codec.Message) []byte {
	id, hasID := m.ID, m.HasID
	if !e.hasByte && !hasID {
		id, hasID = e.rawID, true
	}
	if e.framed() {
		n := len(m.Payload)
		if hasID {
			n += 2
		}
		b = binary.LittleEndian.AppendUint16(b, uint16(n))
	}
	if hasID {
		b = binary.LittleEndian.AppendUint16(b, id)
	}
	return append(b, m.Payload...)
}

// fits reports whether a message can be wrapped: a frame's length has 16 bits.
func (e *envelope) fits(m *codec.Message) bool {
	return !e.framed() || len(m.Payload) <= 1<<16-1-2
}

// open reads the header before the first message. It returns the rest, and whether the messages have IDs.
func (e *envelope) open(payload []byte) (rest []byte, hasID bool, err error) {
	if !e.hasByte {
		return payload, true, nil
	}
	if len(payload) == 0 || payload[0] != e.packetID && payload[0] != e.packetID+1 {
		return nil, false, errEnvelope
	}
	hasID, rest = payload[0] == e.packetID, payload[1:]
	if e.kind == policy.EnvelopeAggregate {
		if len(rest) == 0 || rest[0] != uncompressed {
			return nil, false, errEnvelope
		}
		rest = rest[1:]
	}
	return rest, hasID, nil
}

// next reads one message into m from the rest that open or next returned. All other fields of m stay as they are.
func (e *envelope) next(b []byte, hasID bool, m *codec.Message) (rest []byte, err error) {
	m.ID, m.Pad = 0, 0
	if e.framed() {
		if len(b) < 2 {
			return nil, errEnvelope
		}
		n := int(binary.LittleEndian.Uint16(b))
		if len(b)-2 < n {
			return nil, errEnvelope
		}
		b, rest = b[2:2+n], b[2+n:]
	}
	if hasID {
		if len(b) < 2 {
			return nil, errEnvelope
		}
		m.ID, b = binary.LittleEndian.Uint16(b), b[2:]
	}
	m.HasID, m.Payload = hasID, b
	return rest, nil
}

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
