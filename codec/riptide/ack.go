package riptide

import (
	"encoding/binary"

	"tidegate/codec"
)

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
	return a.appendBits(b)
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

func (a *ack) appendBits(b []byte) []byte {
	x := uint64(kindAck) | uint64(a.last)<<4 | uint64(a.bits)<<20
	if a.forSeq == a.last {
		return append(b, byte(x), byte(x>>8), byte(x>>16), byte(x>>24), byte(x>>32))
	}
	x |= 1<<36 | uint64(a.forSeq)<<37
	return append(b, byte(x), byte(x>>8), byte(x>>16), byte(x>>24), byte(x>>32), byte(x>>40), byte(x>>48))
}
