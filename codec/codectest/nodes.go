package codectest

import (
	"bytes"
	"errors"
	"net/netip"
	"time"

	"tidegate/codec"
)

// clientNode is a dialed side in the network.
type clientNode struct {
	*side
	spec         *codec.Spec
	self, server netip.AddrPort
}

func (n *clientNode) Receive(now time.Time, from, _ netip.AddrPort, datagram []byte) {
	if from == n.server {
		n.receive(now, datagram)
	}
}

func (n *clientNode) Advance(now time.Time) { n.advance(now) }

func (n *clientNode) NextTimeout() time.Time { return n.nextTimeout() }

func (n *clientNode) Transmit(now time.Time, b []byte) ([]byte, netip.AddrPort, netip.AddrPort, bool) {
	start := len(b)
	b, ok := n.transmitLast(now, b)
	if ok {
		n.checkFirstByte(b[start:])
	}
	return b, n.self, n.server, ok
}

// serverNode accepts the one client of the test. It refuses any other client at once.
type serverNode struct {
	protocol codec.Protocol
	r        *report
	self     netip.AddrPort
	client   netip.AddrPort
	side     *side  // serves the client, with a Conn once there is one
	identity uint64 // the client's identity, if it sends one
	defers   bool   // the client waits for Grant
	full     bool   // refuses every client by Protocol.Refuse
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
		n.checkIdentity(conn)
		n.side.conn = conn
		if n.defers {
			conn.(codec.Deferrer).Defer()
		}
		n.side.drain(now)
	default:
		n.refuse(now, conn, from, datagram)
	}
}

// accept gives a new client's datagram to the protocol and queues the answer.
func (n *serverNode) accept(now time.Time, from netip.AddrPort, datagram []byte) codec.Conn {
	conn, reply, err := n.protocol.Accept(now, from, datagram, bytes.Clone(guard))
	switch {
	case err == nil && conn == nil && len(reply) == len(guard):
		n.r.Errorf("server: Accept gives neither Conn nor reply nor error")
	case err != nil && conn != nil:
		n.r.Errorf("server: Accept gives a Conn and the error %v", err)
	case err != nil && !errors.Is(err, codec.ErrMalformed) && !errors.Is(err, codec.ErrRefused):
		n.r.Errorf("server: Accept's error %v wraps neither ErrMalformed nor ErrRefused", err)
	}
	n.answer(from, reply)
	return conn
}

// checkIdentity checks that an Identity knows its client before the first Poll.
func (n *serverNode) checkIdentity(conn codec.Conn) {
	if named, ok := conn.(codec.Identity); ok && n.identity != 0 && named.Identity() != n.identity {
		n.r.Errorf("server: Identity() = %x as Accept returns, want %x", named.Identity(), n.identity)
	}
}

// refuse refuses a new client: by the protocol's stateless refusal if the server is full, else by Close.
func (n *serverNode) refuse(now time.Time, conn codec.Conn, from netip.AddrPort, datagram []byte) {
	if n.full {
		n.answer(from, n.protocol.Refuse(datagram, bytes.Clone(guard), codec.ServerFull))
		return
	}
	conn.Close(now, codec.Goodbye{Reason: codec.Rejected})
	for range maxRound {
		b, ok := conn.Transmit(now, make([]byte, 0, codec.MaxDatagram))
		if !ok {
			return
		}
		n.out = append(n.out, outgoing{from, b})
	}
	n.r.Errorf("server: Transmit round of a refused Conn did not end")
}

// answer queues the bytes that Accept or Refuse appended to guard: one datagram or nothing.
func (n *serverNode) answer(to netip.AddrPort, reply []byte) {
	datagram, ok := bytes.CutPrefix(reply, guard)
	if !ok || len(datagram) > codec.MaxDatagram {
		n.r.Errorf("server: reply %.40x: did not append one datagram of up to %d bytes", reply, codec.MaxDatagram)
		return
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
	return n.side.nextTimeout()
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
