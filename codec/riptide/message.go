package riptide

import (
	"encoding/binary"

	"tidegate/codec"
)

// kind is a message's type, numbered as on the wire of Riptide 2.1+. docs/protocols/riptide.md#types
type kind uint8

// The message types. Messages from kindReliable on carry a sequence number and are acknowledged.
const (
	kindUnreliable kind = iota
	kindAck
	kindConnect
	kindReject
	kindHeartbeat
	kindDisconnect
	kindNotify
	kindReliable
	kindWelcome
	kindClientConnected
	kindClientDisconnected
)

// heartbeat is a client's ping. The server's answer is the ping number alone.
//
//	body 0     ping: a number that goes up by one
//	body 1..2  rtt: the client's last measured round trip in milliseconds, or -1
type heartbeat struct {
	ping uint8
	rtt  int16
}

func (h *heartbeat) parse(w *dialect, d []byte) error {
	if bodyLen(d) < 3 {
		return codec.ErrMalformed
	}
	h.ping, h.rtt = w.byteAt(d, 0), int16(w.uint16At(d, 1))
	return nil
}

func (h *heartbeat) append(w *dialect, b []byte) []byte {
	head := [3]byte{h.ping, byte(h.rtt), byte(uint16(h.rtt) >> 8)}
	return w.append(b, kindHeartbeat, head[:], nil, 0)
}

func parseHeartbeatAnswer(w *dialect, d []byte) (ping uint8, err error) {
	if bodyLen(d) < 1 {
		return 0, codec.ErrMalformed
	}
	return w.byteAt(d, 0), nil
}

func appendHeartbeatAnswer(w *dialect, b []byte, ping uint8) []byte {
	return w.append(b, kindHeartbeat, []byte{ping}, nil, 0)
}

// clientNote is a reliable message about one client: Welcome, ClientConnected or ClientDisconnected.
//
//	body 0..1  sequence number
//	body 2..3  client: a client ID
type clientNote struct {
	kind   kind
	seq    seq
	client uint16
}

func (n *clientNote) parse(w *dialect, d []byte) error {
	if bodyLen(d) < 4 {
		return codec.ErrMalformed
	}
	n.kind, n.seq, n.client = w.kindOf(d), seq(w.uint16At(d, 0)), w.uint16At(d, 2)
	return nil
}

func (n *clientNote) append(w *dialect, b []byte) []byte {
	var head [4]byte
	binary.LittleEndian.PutUint16(head[:], uint16(n.seq))
	binary.LittleEndian.PutUint16(head[2:], n.client)
	return w.append(b, n.kind, head[:], nil, 0)
}

// seq is a 16-bit sequence number of reliable or notify messages. It wraps; only its methods compare it.
type seq uint16

// minus returns how far s is ahead of t on the circle of 2^16 numbers; it is negative if s is behind.
func (s seq) minus(t seq) int { return int(int16(s - t)) }

// before reports whether s precedes t.
func (s seq) before(t seq) bool { return s.minus(t) < 0 }

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

// ack acknowledges reliable messages.
//
//	body 0..1  last: the newest sequence number received
//	body 2..3  bits: bit i says that last-(i+1) was received
//	1 bit      set if forSeq follows; absent in 2.0, where the type says it
//	16 bits    forSeq: the message that caused this acknowledgement, if it is not last
//
// Riptide 2.1.0 to 2.1.2 always write forSeq. docs/protocols/riptide.md#acks
type ack struct {
	last   seq
	bits   uint16
	forSeq seq
}

func (a *ack) parse(w *dialect, d []byte) error {
	if len(d) < 5 {
		return codec.ErrMalformed
	}
	a.last, a.bits = seq(w.uint16At(d, 0)), w.uint16At(d, 2)
	a.forSeq = a.last
	if w.wholeBytes && d[0] != typeAckExtra || !w.wholeBytes && d[4]&0x10 == 0 {
		return nil
	}
	if len(d) < 7 {
		return codec.ErrMalformed
	}
	if w.wholeBytes {
		a.forSeq = seq(w.uint16At(d, 4))
	} else {
		a.forSeq = seq(uint32(d[4])>>5 | uint32(d[5])<<3 | uint32(d[6])<<11)
	}
	return nil
}

func (a *ack) append(w *dialect, b []byte) []byte {
	if w.wholeBytes {
		return a.appendBytes(b, w.typeOf(kindAck))
	}
	x := uint64(kindAck) | uint64(a.last)<<4 | uint64(a.bits)<<20
	if a.forSeq == a.last {
		return append(b, byte(x), byte(x>>8), byte(x>>16), byte(x>>24), byte(x>>32))
	}
	x |= 1<<36 | uint64(a.forSeq)<<37
	return append(b, byte(x), byte(x>>8), byte(x>>16), byte(x>>24), byte(x>>32), byte(x>>40), byte(x>>48))
}

func (a *ack) appendBytes(b []byte, k byte) []byte {
	isExtra := a.forSeq != a.last
	if isExtra {
		k = typeAckExtra
	}
	b = append(b, k)
	b = binary.LittleEndian.AppendUint16(b, uint16(a.last))
	b = binary.LittleEndian.AppendUint16(b, a.bits)
	if isExtra {
		b = binary.LittleEndian.AppendUint16(b, uint16(a.forSeq))
	}
	return b
}

// A message of Riptide 2.1+ is a string of bits, least significant first, that begins with a type of 4 bits. Every
// field that this package reads lies on whole bytes counted from there. A datagram is therefore a nibble and a body.
// Byte i of the body is the high nibble of the datagram's byte i and the low nibble of its byte i+1. The high nibble
// of the last byte is left over: the end of an odd bit string, or padding. See docs/protocols/riptide.md#bits.

// bodyLen returns the number of whole bytes in the body of datagram d, which is not empty.
func bodyLen(d []byte) int { return len(d) - 1 }

// bodyByte returns byte i of d's body.
func bodyByte(d []byte, i int) byte { return d[i]>>4 | d[i+1]<<4 }

// bodyUint16 returns the little-endian number at byte i of d's body.
func bodyUint16(d []byte, i int) uint16 {
	return uint16(bodyByte(d, i)) | uint16(bodyByte(d, i+1))<<8
}

// appendBody appends d's body from byte i on to b. A leftover nibble that is not zero becomes one more byte with a pad
// of 4 bits. A zero nibble is padding. appendDatagram of the result gives the same bits again.
func appendBody(b, d []byte, i int) (out []byte, pad uint8) {
	d = d[i:]
	n := len(d) - 1
	start := len(b)
	b = append(b, d[:n]...)
	out = b[start:]
	k := 0
	for ; k+8 <= n; k += 8 {
		x := binary.LittleEndian.Uint64(d[k:])>>4 | uint64(d[k+8])<<60
		binary.LittleEndian.PutUint64(out[k:], x)
	}
	for ; k < n; k++ {
		out[k] = d[k]>>4 | d[k+1]<<4
	}
	if rest := d[n] >> 4; rest != 0 {
		return append(b, rest), 4
	}
	return b, 0
}

// appendDatagram appends a datagram of type k. Its body is head and then payload without the last pad bits.
func appendDatagram(b []byte, k kind, head, payload []byte, pad uint8) []byte {
	b, carry := appendShifted(b, byte(k), head)
	if len(payload) == 0 {
		return append(b, carry)
	}
	pad &= 7
	last := len(payload) - 1
	b, carry = appendShifted(b, carry, payload[:last])
	x := payload[last] << pad >> pad
	b = append(b, carry|x<<4)
	if pad < 4 {
		b = append(b, x>>4)
	}
	return b
}

// datagramLen returns the length of appendDatagram's datagram.
func datagramLen(head, payload int, pad uint8) int {
	if payload > 0 && pad&7 >= 4 {
		return head + payload
	}
	return head + payload + 1
}

// appendShifted appends p shifted up by a nibble. carry becomes the low nibble of the first byte. It returns the
// leftover nibble.
func appendShifted(b []byte, carry byte, p []byte) ([]byte, byte) {
	start := len(b)
	b = append(b, p...)
	out := b[start:]
	k := 0
	for ; k+8 <= len(p); k += 8 {
		x := binary.LittleEndian.Uint64(p[k:])
		binary.LittleEndian.PutUint64(out[k:], x<<4|uint64(carry))
		carry = byte(x >> 60)
	}
	for ; k < len(p); k++ {
		out[k] = carry | p[k]<<4
		carry = p[k] >> 4
	}
	return b, carry
}

// bodyVarint reads a VarULong at byte i of d's body. It returns the low 16 bits, as the library does, and the place
// after the number. It reports false if the body ends first or the number has more than 64 bits.
func bodyVarint(d []byte, i int) (v uint16, next int, ok bool) {
	for n := range binary.MaxVarintLen64 {
		if i >= bodyLen(d) {
			return 0, 0, false
		}
		x := bodyByte(d, i)
		i++
		if n < 3 {
			v |= uint16(x&0x7f) << (7 * n)
		}
		if x < 0x80 {
			return v, i, true
		}
	}
	return 0, 0, false
}
