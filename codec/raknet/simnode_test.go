package raknet

import (
	"bytes"
	"net/netip"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest/simnet"
)

// simNode drives one Conn on a simulated network, and keeps the received messages. Its clock may be ahead of the
// network's.
type simNode struct {
	ahead      time.Duration
	self, peer netip.AddrPort
	p          *Protocol
	conn       codec.Conn
	reply      []byte
	connected  bool
	over       bool
	got        []simMessage
}

// simMessage is a message with the time of its arrival.
type simMessage struct {
	at      time.Time
	payload []byte
}

// newSim returns a client and a server that are connected in the given network conditions. The server's clock is
// ahead.
func newSim(t *testing.T, weather simnet.Weather, ahead time.Duration) (net *simnet.Net, client, server *simNode) {
	t.Helper()
	net = simnet.New(t, 1, weather)
	server = &simNode{ahead: ahead, self: linkServer, peer: linkClient, p: New(Options{})}
	client = &simNode{self: linkClient, peer: linkServer}
	client.conn = New(Options{}).Dial(net.Now(), linkServer, codec.Hello{})
	net.Add(server, linkServer)
	net.Add(client, linkClient)
	net.Run(time.Second)
	net.RunUntil(time.Second, func() bool { return client.connected && server.connected })
	if !client.connected || !server.connected {
		t.Fatal("not connected within two seconds")
	}
	return net, client, server
}

func (n *simNode) send(t *testing.T, now time.Time, m codec.Message) {
	t.Helper()
	if err := n.conn.Send(now.Add(n.ahead), m); err != nil {
		t.Fatal(err)
	}
}

// Receive implements simnet.Node.
func (n *simNode) Receive(now time.Time, from, _ netip.AddrPort, datagram []byte) {
	now = now.Add(n.ahead)
	if n.conn != nil {
		_ = n.conn.Receive(now, datagram)
	} else if conn, reply, err := n.p.Accept(now, from, datagram, nil); err == nil {
		n.conn, n.reply = conn, reply
	}
	n.drain(now)
}

func (n *simNode) drain(now time.Time) {
	if n.conn == nil {
		return
	}
	for e, ok := n.conn.Poll(); ok; e, ok = n.conn.Poll() {
		switch e.Kind {
		case codec.Asked:
			n.conn.Admit(now, 1)
		case codec.Connected:
			n.connected = true
		case codec.Disconnected:
			n.over = true
		case codec.Received:
			n.got = append(n.got, simMessage{now, bytes.Clone(e.Payload)})
		}
	}
}

// Advance implements simnet.Node.
func (n *simNode) Advance(now time.Time) {
	if n.conn != nil {
		n.conn.Advance(now.Add(n.ahead))
		n.drain(now.Add(n.ahead))
	}
}

// Transmit implements simnet.Node.
func (n *simNode) Transmit(now time.Time, b []byte) ([]byte, netip.AddrPort, netip.AddrPort, bool) {
	if len(n.reply) > 0 {
		b, n.reply = append(b, n.reply...), nil
		return b, n.self, n.peer, true
	}
	if n.conn == nil {
		return b, n.self, n.peer, false
	}
	b, ok := n.conn.Transmit(now.Add(n.ahead), b)
	return b, n.self, n.peer, ok
}

// NextTimeout implements simnet.Node.
func (n *simNode) NextTimeout() time.Time {
	if n.conn == nil || n.conn.NextTimeout().IsZero() {
		return time.Time{}
	}
	return n.conn.NextTimeout().Add(-n.ahead)
}
