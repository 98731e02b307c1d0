package codectest

import (
	"errors"
	"net/netip"
	"time"

	"tidegate/codec"
)

// clientNode is a dialed side in the network.
type clientNode struct {
	*side
	self, server netip.AddrPort
}

func (n *clientNode) Receive(now time.Time, from, _ netip.AddrPort, datagram []byte) {
	if from == n.server {
		n.receive(now, datagram)
	}
}

func (n *clientNode) Advance(now time.Time) { n.advance(now) }

func (n *clientNode) NextTimeout() time.Time { return n.nextWake() }

func (n *clientNode) Transmit(now time.Time, b []byte) ([]byte, netip.AddrPort, netip.AddrPort, bool) {
	b, ok := n.transmitLast(now, b)
	return b, n.self, n.server, ok
}

// nextWake is nextTimeout, or never once the side is over.
func (s *side) nextWake() time.Time {
	if s.over {
		return time.Time{}
	}
	return s.nextTimeout()
}

// transmitLast is transmit up to and including the one round that follows Disconnected, as a proxy would run it.
func (s *side) transmitLast(now time.Time, b []byte) ([]byte, bool) {
	if s.silent {
		return b, false
	}
	b, ok := s.transmit(now, b)
	if !ok && s.over {
		s.silent = true
	}
	return b, ok
}

// serverNode accepts the one client of the test, and anybody else only to refuse at once.
type serverNode struct {
	protocol codec.Protocol
	r        *report
	self     netip.AddrPort
	client   netip.AddrPort
	side     *side // of the client, with a Conn once there is one
	full     bool  // refuses everybody by Protocol.Refuse
	out      []outgoing
}

// outgoing is a datagram that does not come from the side's Conn.
type outgoing struct {
	to       netip.AddrPort
	datagram []byte
}

func (n *serverNode) Receive(now time.Time, from, _ netip.AddrPort, datagram []byte) {
	if from == n.client && n.side.conn != nil {
		n.side.receive(now, datagram)
		return
	}
	if !n.protocol.Sniff(datagram) {
		return
	}
	conn := n.accept(now, from, datagram)
	switch {
	case conn == nil:
	case from == n.client && !n.full:
		n.side.conn = conn
		n.side.drain(now)
	default:
		n.refuse(now, conn, from, datagram)
	}
}

// accept hands a datagram of a newcomer to the protocol and queues its answer.
func (n *serverNode) accept(now time.Time, from netip.AddrPort, datagram []byte) codec.Conn {
	conn, reply, err := n.protocol.Accept(now, from, datagram, nil)
	switch {
	case err == nil && conn == nil && len(reply) == 0:
		n.r.Errorf("server: Accept gives neither Conn nor reply nor error")
	case err != nil && conn != nil:
		n.r.Errorf("server: Accept gives a Conn and the error %v", err)
	case err != nil && !errors.Is(err, codec.ErrMalformed) && !errors.Is(err, codec.ErrRefused):
		n.r.Errorf("server: Accept's error %v wraps neither ErrMalformed nor ErrRefused", err)
	}
	n.answer(from, reply)
	return conn
}

// refuse turns a newcomer away: by the protocol's stateless refusal if the server is full, else by closing.
func (n *serverNode) refuse(now time.Time, conn codec.Conn, from netip.AddrPort, datagram []byte) {
	if n.full {
		n.answer(from, n.protocol.Refuse(datagram, nil, codec.ServerFull))
		return
	}
	conn.Close(now, codec.Goodbye{Reason: codec.Rejected})
	for range maxRound {
		b, ok := conn.Transmit(now, make([]byte, 0, codec.MaxDatagram))
		if !ok {
			return
		}
		n.answer(from, b)
	}
	n.r.Errorf("server: Transmit round of a refused Conn did not end")
}

func (n *serverNode) answer(to netip.AddrPort, datagram []byte) {
	if len(datagram) > codec.MaxDatagram {
		n.r.Errorf("server: answer of %d bytes, want at most %d", len(datagram), codec.MaxDatagram)
	}
	if len(datagram) > 0 {
		n.out = append(n.out, outgoing{to, datagram})
	}
}

func (n *serverNode) Advance(now time.Time) {
	if n.side.conn != nil {
		n.side.advance(now)
	}
}

func (n *serverNode) NextTimeout() time.Time {
	if n.side.conn == nil {
		return time.Time{}
	}
	return n.side.nextWake()
}

func (n *serverNode) Transmit(now time.Time, b []byte) ([]byte, netip.AddrPort, netip.AddrPort, bool) {
	if len(n.out) > 0 {
		next := n.out[0]
		n.out = n.out[1:]
		return append(b, next.datagram...), n.self, next.to, true
	}
	if n.side.conn == nil {
		return b, n.self, n.client, false
	}
	b, ok := n.side.transmitLast(now, b)
	return b, n.self, n.client, ok
}
