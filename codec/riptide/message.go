package riptide

import (
	"encoding/binary"

	"tidegate/codec"
)

// maxHeader bounds the bytes of a message header between the type and the payload.
const maxHeader = 8

// userHeader precedes the payload of an unreliable or reliable message.
//
//	body 0..1  sequence number, of reliable messages only
//	then       id: the message ID. In 2.1+ a VarULong, of which receivers use the low 16 bits; in 2.0 two bytes
type userHeader struct {
	reliable bool
	seq      seq
	id       uint16
}

// parse returns the place of the payload in d's body.
func (h *userHeader) parse(w *dialect, d []byte) (payload int, err error) {
	h.reliable = w.kindOf(d) == kindReliable
	at := 0
	if h.reliable {
		if bodyLen(d) < 2 {
			return 0, codec.ErrMalformed
		}
		h.seq = seq(w.uint16At(d, 0))
		at = 2
	}
	id, at, ok := w.idAt(d, at)
	if !ok {
		return 0, codec.ErrMalformed
	}
	h.id = id
	return at, nil
}

// append appends the header to b, as the part of a body before the payload.
func (h *userHeader) append(w *dialect, b []byte) []byte {
	if h.reliable {
		b = binary.LittleEndian.AppendUint16(b, uint16(h.seq))
	}
	return w.appendID(b, h.id)
}

// notifyHeader precedes the payload of a notify message, which 2.0 does not have. It acknowledges notify messages of
// the other direction.
//
//	body 0..1  last: the newest notify sequence number received
//	body 2     bits: bit i says that last-(i+1) was received
//	body 3..4  sequence number
//
// A message ID is part of the payload: the library writes one if the game asks for it, and never reads one.
type notifyHeader struct {
	last seq
	bits uint8
	seq  seq
}

const notifyHeaderLen = 5

func (h *notifyHeader) parse(d []byte) error {
	if bodyLen(d) < notifyHeaderLen {
		return codec.ErrMalformed
	}
	h.last, h.bits, h.seq = seq(bodyUint16(d, 0)), bodyByte(d, 2), seq(bodyUint16(d, 3))
	return nil
}

// append appends the header to b, as the part of a body before the payload.
func (h *notifyHeader) append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint16(b, uint16(h.last))
	b = append(b, h.bits)
	return binary.LittleEndian.AppendUint16(b, uint16(h.seq))
}
