package proxy

import (
	"encoding/binary"
	"errors"

	"tidegate/codec"
)

// errEnvelope: a message towards a protocol with message IDs is not in the route's envelope.
var errEnvelope = errors.New("message not in the route's envelope")

// envelope writes and reads message IDs for a protocol whose messages have none:
//
//	id      packet byte*, ID u16 little-endian, payload
//	framed  packet byte*, then each: length u16 little-endian of what follows, ID u16 little-endian, payload
//
// * only in protocols whose messages begin with a byte that names them. A message without an ID has the packet byte
// plus one, and no ID field. Where there is no such byte, it travels as the raw ID.
type envelope struct {
	kind     Envelope
	hasByte  bool
	packetID byte
	rawID    uint16
}

// wrap appends m to b as the far side's payload.
func (e *envelope) wrap(b []byte, m *codec.Message) []byte {
	id, hasID := m.ID, m.HasID
	switch {
	case e.hasByte && hasID:
		b = append(b, e.packetID)
	case e.hasByte:
		b = append(b, e.packetID+1)
	case !hasID:
		id, hasID = e.rawID, true
	}
	if e.kind == EnvelopeFramed {
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

// fits reports whether a message can be wrapped: a frame's length is 16 bits.
func (e *envelope) fits(m *codec.Message) bool {
	return e.kind != EnvelopeFramed || len(m.Payload) <= 1<<16-1-2
}

// open reads the packet byte. It returns the rest, and whether its messages have IDs.
func (e *envelope) open(payload []byte) (rest []byte, hasID bool, err error) {
	switch {
	case !e.hasByte:
		return payload, true, nil
	case len(payload) > 0 && payload[0] == e.packetID:
		return payload[1:], true, nil
	case len(payload) > 0 && payload[0] == e.packetID+1:
		return payload[1:], false, nil
	}
	return nil, false, errEnvelope
}

// next reads one message from what open or next left into m. All other fields of m stay as they are.
func (e *envelope) next(b []byte, hasID bool, m *codec.Message) (rest []byte, err error) {
	m.ID, m.Pad = 0, 0
	if e.kind == EnvelopeFramed {
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
