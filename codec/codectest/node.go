package codectest

import (
	"net/netip"
	"time"

	"tidegate/codec"
)

// Node is a machine for a game's own tests on a simnet.Net. It has one address, serves the connections that Protocol
// accepts there, and dials others, as an endpoint.Endpoint does on real sockets. It is for the Net's goroutine alone.
type Node struct {
	Protocol codec.Protocol
	Self     netip.AddrPort
	// Event gets each event of each connection. It may call Send, Admit and Close of any Conn; the payload is lent.
	Event func(now time.Time, c codec.Conn, e codec.Event)
	conns []nodeConn // in the order of their begin, so that a seed gives the same run
	out   []outgoing
}

type nodeConn struct {
	codec.Conn
	peer netip.AddrPort
	over bool
}

// Dial opens a connection to another Node.
func (n *Node) Dial(now time.Time, to netip.AddrPort, hello codec.Hello) codec.Conn {
	c := n.Protocol.Dial(now, to, hello)
	n.conns = append(n.conns, nodeConn{Conn: c, peer: to})
	return c
}

// Receive implements simnet.Node.
func (n *Node) Receive(now time.Time, from, _ netip.AddrPort, datagram []byte) {
	for i := range n.conns {
		if c := &n.conns[i]; c.peer == from {
			_ = c.Receive(now, datagram) // it counts what it drops
			n.poll(now)
			return
		}
	}
	if !n.Protocol.Sniff(datagram) {
		return
	}
	conn, reply, _ := n.Protocol.Accept(now, from, datagram, nil)
	if len(reply) > 0 {
		n.out = append(n.out, outgoing{from, reply})
	}
	if conn != nil {
		n.conns = append(n.conns, nodeConn{Conn: conn, peer: from})
	}
	n.poll(now)
}

// poll hands out all events. Event may cause further ones of any connection.
func (n *Node) poll(now time.Time) {
	for again := true; again; {
		again = false
		for i := 0; i < len(n.conns); i++ {
			for e, ok := n.conns[i].Poll(); ok; e, ok = n.conns[i].Poll() {
				again = true
				n.conns[i].over = n.conns[i].over || e.Kind == codec.Disconnected
				n.Event(now, n.conns[i].Conn, e)
			}
		}
	}
}

// Advance implements simnet.Node.
func (n *Node) Advance(now time.Time) {
	for i := range n.conns {
		n.conns[i].Advance(now)
	}
	n.poll(now)
}

// NextTimeout implements simnet.Node.
func (n *Node) NextTimeout() (next time.Time) {
	for i := range n.conns {
		next = codec.Earliest(next, n.conns[i].NextTimeout())
	}
	return next
}

// Transmit implements simnet.Node. It forgets a connection after the last datagram of its end.
func (n *Node) Transmit(now time.Time, b []byte) ([]byte, netip.AddrPort, netip.AddrPort, bool) {
	if len(n.out) > 0 {
		next := n.out[0]
		n.out = n.out[1:]
		return append(b, next.datagram...), n.Self, next.to, true
	}
	for i := 0; i < len(n.conns); {
		c := &n.conns[i]
		datagram, ok := c.Transmit(now, b)
		switch {
		case ok:
			return datagram, n.Self, c.peer, true
		case c.over:
			n.conns = append(n.conns[:i], n.conns[i+1:]...)
		default:
			i++
		}
	}
	return b, n.Self, netip.AddrPort{}, false
}
