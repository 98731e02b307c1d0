package riptide

import (
	"encoding/binary"

	"tidegate/codec"
)

// dialect holds the differences between one version of the protocol and the other. Their layouts differ in three
// points: the width of the type, the form of a message ID, and the place where an acknowledgement says that it has
// more. The same code writes and reads everything else. It counts bytes from behind the type: the body.
// docs/protocols/riptide/2.0.md#riptide-20
type dialect struct {
	modes codec.Modes
	// wholeBytes says that the type takes a byte instead of a nibble, so that all fields lie on bytes.
	wholeBytes bool
	// overhead is the number of bytes that the library reserves for headers, in addition to Options.MaxPayload.
	overhead int
	// rejectRepeats is how often a Reject is sent, because the client does not acknowledge it.
	rejectRepeats int
	// poorConnection is the reason in Disconnect for a poor connection.
	poorConnection uint8
	// inFlight is the default of Options.MaxInFlight.
	inFlight int
	// patient says that a reliable message is sent slowSends times more after maxSends, before the connection is given
	// up.
	patient bool
}

var dialects = [...]dialect{
	V22: {
		modes:          codec.ModesOf(codec.Unreliable, codec.Reliable, codec.Notify),
		overhead:       6,
		rejectRepeats:  3,
		poorConnection: disconnectPoorConnection,
		inFlight:       windowSize,
	},
	V20: {
		modes:          codec.ModesOf(codec.Unreliable, codec.Reliable),
		wholeBytes:     true,
		overhead:       5,
		rejectRepeats:  1,
		poorConnection: disconnectTransportError,
		inFlight:       16,
		patient:        true,
	},
}

// typeAckExtra is the type of Riptide 2.0's acknowledgements with forSeq. The types of 2.0 from there to Disconnect
// are one higher than those of 2.1+.
const typeAckExtra = 2

// kindOf returns the type of datagram d, which is not empty.
func (w *dialect) kindOf(d []byte) kind {
	if !w.wholeBytes {
		return kind(d[0] & 0x0f)
	}
	if k := kind(d[0]); k < typeAckExtra || k >= kindReliable {
		return k
	}
	return kind(d[0] - 1)
}

// typeOf returns the first byte, or nibble, of a message of kind k.
func (w *dialect) typeOf(k kind) byte {
	if w.wholeBytes && k >= typeAckExtra && k < kindReliable {
		return byte(k) + 1
	}
	return byte(k)
}

// byteAt returns byte i of d's body.
func (w *dialect) byteAt(d []byte, i int) byte {
	if w.wholeBytes {
		return d[i+1]
	}
	return bodyByte(d, i)
}

// uint16At returns the little-endian number at byte i of d's body.
func (w *dialect) uint16At(d []byte, i int) uint16 {
	if w.wholeBytes {
		return binary.LittleEndian.Uint16(d[i+1:])
	}
	return bodyUint16(d, i)
}

// idAt returns the message ID at byte i of d's body, and the place after it. It reports false if the body ends first.
func (w *dialect) idAt(d []byte, i int) (id uint16, next int, ok bool) {
	if !w.wholeBytes {
		return bodyVarint(d, i)
	}
	if bodyLen(d) < i+2 {
		return 0, 0, false
	}
	return w.uint16At(d, i), i + 2, true
}

// appendID appends a message ID to b, which is part of a body.
func (w *dialect) appendID(b []byte, id uint16) []byte {
	if w.wholeBytes {
		return binary.LittleEndian.AppendUint16(b, id)
	}
	return binary.AppendUvarint(b, uint64(id))
}

// payload appends d's body from byte i on to b, as a payload and its Pad.
func (w *dialect) payload(b, d []byte, i int) (out []byte, pad uint8) {
	if w.wholeBytes {
		return append(b, d[i+1:]...), 0
	}
	return appendBody(b, d, i)
}

// append appends a message of kind k. Its body is head and then payload without the last pad bits.
func (w *dialect) append(b []byte, k kind, head, payload []byte, pad uint8) []byte {
	if !w.wholeBytes {
		return appendDatagram(b, k, head, payload, pad)
	}
	b = append(b, w.typeOf(k))
	b = append(b, head...)
	return append(b, payload...)
}

// size returns the length of append's datagram.
func (w *dialect) size(head, payload int, pad uint8) int {
	if w.wholeBytes {
		return 1 + head + payload
	}
	return datagramLen(head, payload, pad)
}

// rejectReason returns the reason for byte x of a Reject. Riptide 2.0 has one more reason, at 2; its later reasons are
// one higher than those of 2.1+.
func (w *dialect) rejectReason(x uint8) uint8 {
	switch {
	case !w.wholeBytes || x < rejectPending20:
		return x
	case x == rejectPending20:
		return rejectPending
	}
	return x - 1
}

// rejectByte returns the byte for a reason in Reject.
func (w *dialect) rejectByte(reason uint8) uint8 {
	switch {
	case !w.wholeBytes || reason < rejectPending20:
		return reason
	case reason == rejectPending:
		return rejectPending20
	}
	return reason + 1
}
