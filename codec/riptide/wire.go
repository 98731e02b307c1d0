package riptide

import (
	"encoding/binary"

	"tidegate/codec"
)

// kind is a message's type as on the wire of Riptide 2.1+, in the low nibble of its first byte.
// See docs/protocols/riptide.md#types.
type kind uint8

// The message types. Those from kindReliable to 15 carry a sequence number and are acknowledged.
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

// kindOf is the type of datagram d, which is not empty.
func kindOf(d []byte) kind { return kind(d[0] & 0x0f) }

// ack acknowledges reliable messages.
//
//	body 0..1  last: the newest sequence number received
//	body 2..3  bits: bit i says that last-(i+1) was received
//	1 bit      set when forSeq follows
//	16 bits    forSeq: the message that caused this acknowledgement, where it is not last
//
// Riptide 2.1.0 to 2.1.2 write forSeq always. docs/protocols/riptide.md#acks
type ack struct {
	last   seq
	bits   uint16
	forSeq seq
}

func (a *ack) parse(d []byte) error {
	if len(d) < 5 {
		return codec.ErrMalformed
	}
	a.last, a.bits = seq(bodyUint16(d, 0)), bodyUint16(d, 2)
	a.forSeq = a.last
	if d[4]&0x10 == 0 {
		return nil
	}
	if len(d) < 7 {
		return codec.ErrMalformed
	}
	a.forSeq = seq(uint32(d[4])>>5 | uint32(d[5])<<3 | uint32(d[6])<<11)
	return nil
}

func (a *ack) append(b []byte) []byte {
	x := uint64(kindAck) | uint64(a.last)<<4 | uint64(a.bits)<<20
	if a.forSeq == a.last {
		return append(b, byte(x), byte(x>>8), byte(x>>16), byte(x>>24), byte(x>>32))
	}
	x |= 1<<36 | uint64(a.forSeq)<<37
	return append(b, byte(x), byte(x>>8), byte(x>>16), byte(x>>24), byte(x>>32), byte(x>>40), byte(x>>48))
}

// heartbeat is a client's ping. The server's answer is the ping number alone.
//
//	body 0     ping: a number that goes up by one
//	body 1..2  rtt: the client's last measured round trip in milliseconds, or -1
type heartbeat struct {
	ping uint8
	rtt  int16
}

func (h *heartbeat) parse(d []byte) error {
	if bodyLen(d) < 3 {
		return codec.ErrMalformed
	}
	h.ping, h.rtt = bodyByte(d, 0), int16(bodyUint16(d, 1))
	return nil
}

func (h *heartbeat) append(b []byte) []byte {
	head := [3]byte{h.ping, byte(h.rtt), byte(uint16(h.rtt) >> 8)}
	return appendDatagram(b, kindHeartbeat, head[:], nil, 0)
}

func parseHeartbeatAnswer(d []byte) (ping uint8, err error) {
	if bodyLen(d) < 1 {
		return 0, codec.ErrMalformed
	}
	return bodyByte(d, 0), nil
}

func appendHeartbeatAnswer(b []byte, ping uint8) []byte {
	return appendDatagram(b, kindHeartbeat, []byte{ping}, nil, 0)
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

func (n *clientNote) parse(d []byte) error {
	if bodyLen(d) < 4 {
		return codec.ErrMalformed
	}
	n.kind, n.seq, n.client = kindOf(d), seq(bodyUint16(d, 0)), bodyUint16(d, 2)
	return nil
}

func (n *clientNote) append(b []byte) []byte {
	var head [4]byte
	binary.LittleEndian.PutUint16(head[:], uint16(n.seq))
	binary.LittleEndian.PutUint16(head[2:], n.client)
	return appendDatagram(b, n.kind, head[:], nil, 0)
}
