//go:build interop

package interop_test

import (
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/raknet"
)

// Peers of our own codec are the other end where a test examines one library: any failure is then that library's or
// ours.

// ownPeer is one end of a RakNet connection over UDP.
type ownPeer struct {
	*peer
	protocol codec.Protocol
	conn     codec.Conn
	socket   *net.UDPConn
	to       netip.AddrPort
	orders   chan order
	done     chan struct{} // closed when no more orders come
	echoes   bool
	buffer   [codec.MaxDatagram]byte
}

func ownOptions() raknet.Options {
	return raknet.Options{
		Versions: []uint8{9, 10, 11}, DialVersion: 11, SizedPong: true, OrderedOnly: true,
		MaxMessage: 4 << 20, MaxQueued: 64 << 20, MaxParts: 1000,
		HandshakeTimeout: 3 * patience,
	}
}

func newOwnPeer(t *testing.T, name string, protocol codec.Protocol) *ownPeer {
	t.Helper()
	socket, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	_ = socket.SetReadBuffer(4 << 20)
	p := &ownPeer{
		peer: &peer{name: name, events: make(chan event, 4*burst)}, protocol: protocol, socket: socket,
		orders: make(chan order, burst), done: make(chan struct{}),
	}
	p.port = portOf(t, socket.LocalAddr().String())
	p.do = func(o order) error {
		p.orders <- o
		return nil
	}
	ended := make(chan struct{})
	t.Cleanup(func() {
		close(p.done)
		_ = socket.Close()
		<-ended
	})
	go func() {
		defer close(ended)
		p.run()
	}()
	return p
}

// startOwnServer runs a server for one client that echoes every message.
func startOwnServer(t *testing.T) *peer {
	return startOwn(t, raknet.New(ownOptions()), "")
}

// startOwnClient connects a client.
func startOwnClient(t *testing.T, port string) *peer {
	return startOwn(t, raknet.New(ownOptions()), port)
}

// startOwn connects a client to a port, or runs a server if that is empty.
func startOwn(t *testing.T, protocol codec.Protocol, port string) *peer {
	if port == "" {
		p := newOwnPeer(t, "our own server", protocol)
		p.orders <- order{Do: "echo"}
		return p.peer
	}
	p := newOwnPeer(t, "our own client", protocol)
	p.orders <- order{Do: "connect", Payload: net.JoinHostPort("127.0.0.1", port)}
	return p.peer
}

// turn is the longest wait for a datagram before the peer looks at its orders.
const turn = 2 * time.Millisecond

// run runs until the socket is closed.
func (p *ownPeer) run() {
	for {
		_ = p.socket.SetReadDeadline(time.Now().Add(turn))
		n, from, err := p.socket.ReadFromUDPAddrPort(p.buffer[:])
		now := time.Now()
		switch {
		case err == nil:
			p.receive(now, from, p.buffer[:n])
		case !isTimeout(err):
			return
		}
		p.obey(now)
		if p.conn != nil {
			p.conn.Advance(now)
			p.drain(now)
			p.flush(now)
		}
	}
}

func isTimeout(err error) bool {
	timeout, ok := err.(net.Error)
	return ok && timeout.Timeout()
}

func (p *ownPeer) receive(now time.Time, from netip.AddrPort, datagram []byte) {
	if p.conn != nil {
		_ = p.conn.Receive(now, datagram) // the sender resends a dropped datagram
		p.drain(now)
		return
	}
	if !p.echoes || !p.protocol.Sniff(datagram) {
		return
	}
	from = netip.AddrPortFrom(from.Addr().Unmap(), from.Port())
	conn, reply, _ := p.protocol.Accept(now, from, datagram, nil)
	if len(reply) > 0 {
		_, _ = p.socket.WriteToUDPAddrPort(reply, from)
	}
	if conn != nil {
		p.conn, p.to = conn, from
	}
}

// obey executes the orders so far.
func (p *ownPeer) obey(now time.Time) {
	for {
		select {
		case o := <-p.orders:
			p.carryOut(now, o)
		default:
			return
		}
	}
}

func (p *ownPeer) carryOut(now time.Time, o order) {
	switch o.Do {
	case "echo":
		p.echoes = true
	case "connect":
		p.to = netip.MustParseAddrPort(o.Payload)
		p.conn = p.protocol.Dial(now, p.to, codec.Hello{Identity: 0x7e57})
	case "send":
		payload, err := hex.DecodeString(o.Payload)
		if err != nil {
			panic(fmt.Sprintf("order of the test: %v", err))
		}
		p.send(now, payload)
	case "leave":
		p.conn.Close(now, codec.Goodbye{})
	}
}

// drain reports the connection's events.
func (p *ownPeer) drain(now time.Time) {
	for e, ok := p.conn.Poll(); ok; e, ok = p.conn.Poll() {
		switch e.Kind {
		case codec.Asked:
			p.conn.Admit(now, 0)
		case codec.Connected:
			p.tell(event{Event: map[bool]string{true: "joined", false: "connected"}[p.echoes]})
		case codec.Received:
			p.tell(event{Event: "received", Payload: hex.EncodeToString(e.Payload)})
			if p.echoes {
				p.send(now, e.Payload)
			}
		case codec.Disconnected:
			p.tell(event{Event: map[bool]string{true: "left", false: "disconnected"}[p.echoes]})
		}
	}
}

func (p *ownPeer) tell(e event) {
	select {
	case p.events <- e:
	case <-p.done:
	}
}

func (p *ownPeer) send(now time.Time, payload []byte) {
	m := codec.Message{Payload: payload, Mode: codec.ReliableOrdered}
	if !p.protocol.Spec().Modes.Has(m.Mode) {
		m.Mode = codec.Unreliable
	}
	if err := p.conn.Send(now, m); err != nil {
		p.tell(event{Event: "unsent"})
	}
}

func (p *ownPeer) flush(now time.Time) {
	for b, ok := p.conn.Transmit(now, p.buffer[:0]); ok; b, ok = p.conn.Transmit(now, p.buffer[:0]) {
		_, _ = p.socket.WriteToUDPAddrPort(b, p.to) // lost datagrams are resent
	}
}
