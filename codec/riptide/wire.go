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
