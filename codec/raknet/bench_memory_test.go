package raknet_test

import (
	"bytes"
	"context"
	"net"
	"testing"
	"time"

	gork "github.com/sandertv/go-raknet"

	"tidegate/codec"
	"tidegate/codec/raknet"
)

// memoryPair is a connection of ours without sockets, in virtual time.
type memoryPair struct {
	b              *testing.B
	now            time.Time
	client, server codec.Conn
	room           []byte
	received       int // by the client
}

// newRoom returns room for datagrams, which pairs may share.
func newRoom() []byte { return make([]byte, 0, codec.MaxDatagram) }

func newMemoryPair(b *testing.B, p *raknet.Protocol, room []byte) *memoryPair {
	at := memoryAddress(1).AddrPort()
	m := &memoryPair{b: b, now: time.Unix(1e9, 0), room: room}
	m.client = p.Dial(m.now, at, codec.Hello{Identity: 1})
	for m.server == nil {
		wire, _ := m.client.Transmit(m.now, nil)
		conn, reply, err := p.Accept(m.now, at, wire, nil)
		if err != nil {
			b.Fatal(err)
		}
		if m.server = conn; conn == nil {
			_ = m.client.Receive(m.now, reply)
		}
	}
	m.wait(time.Second)
	return m
}

// deliver transfers a message from the server to the client, and acknowledgements back.
func (m *memoryPair) deliver(payload []byte) {
	before := m.received
	m.now = m.now.Add(10 * time.Millisecond)
	if err := m.server.Send(m.now, codec.Message{Payload: payload, Mode: codec.ReliableOrdered}); err != nil {
		m.b.Fatal(err)
	}
	m.advance()
	if m.received != before+1 {
		m.b.Fatal("not delivered at once")
	}
}

func (m *memoryPair) wait(d time.Duration) {
	for until := m.now.Add(d); ; m.advance() {
		next := m.client.NextTimeout()
		if at := m.server.NextTimeout(); at.Before(next) {
			next = at
		}
		if next.After(until) {
			m.now = until
			return
		}
		if next.After(m.now) {
			m.now = next
		}
	}
}

func (m *memoryPair) advance() {
	m.client.Advance(m.now)
	m.server.Advance(m.now)
	m.poll()
	for m.carry(m.server, m.client) || m.carry(m.client, m.server) {
	}
}

func (m *memoryPair) carry(from, to codec.Conn) bool {
	wire, ok := from.Transmit(m.now, m.room)
	if ok {
		_ = to.Receive(m.now, wire)
		m.poll()
	}
	return ok
}

func (m *memoryPair) poll() {
	for _, c := range []codec.Conn{m.client, m.server} {
		for e, ok := c.Poll(); ok; e, ok = c.Poll() {
			switch e.Kind {
			case codec.Asked:
				c.Admit(m.now, 1)
			case codec.Received:
				m.received++
			}
		}
	}
}

// memoryNet transfers the datagrams of a go-raknet listener and its dialers through channels.
type memoryNet struct {
	toListener chan memoryDatagram
	toDialer   []chan []byte // by port minus the listener's
	closed     chan struct{}
}

type memoryDatagram struct {
	from net.Addr
	b    []byte
}

func memoryAddress(port int) *net.UDPAddr {
	return &net.UDPAddr{IP: net.IPv4(192, 0, 2, 1).To4(), Port: port}
}

func newMemoryNet() *memoryNet {
	return &memoryNet{toListener: make(chan memoryDatagram, 1024), closed: make(chan struct{})}
}

// ListenPacket implements gork.UpstreamPacketListener.
func (n *memoryNet) ListenPacket(string, string) (net.PacketConn, error) {
	return &memorySocket{net: n}, nil
}

// DialContext implements gork.UpstreamDialer.
func (n *memoryNet) DialContext(context.Context, string, string) (net.Conn, error) {
	n.toDialer = append(n.toDialer, make(chan []byte, 1024))
	return &memorySocket{net: n, port: len(n.toDialer)}, nil
}

// memorySocket is the listener's socket, with port 0, or a dialer's.
type memorySocket struct {
	net.UDPConn // for methods that are never called
	net         *memoryNet
	port        int
}

func (s *memorySocket) ReadFrom(b []byte) (int, net.Addr, error) {
	select {
	case d := <-s.net.toListener:
		return copy(b, d.b), d.from, nil
	case <-s.net.closed:
		return 0, nil, net.ErrClosed
	}
}

func (s *memorySocket) WriteTo(b []byte, to net.Addr) (int, error) {
	s.net.toDialer[to.(*net.UDPAddr).Port-1] <- bytes.Clone(b)
	return len(b), nil
}

func (s *memorySocket) Read(b []byte) (int, error) {
	select {
	case d := <-s.net.toDialer[s.port-1]:
		return copy(b, d), nil
	case <-s.net.closed:
		return 0, net.ErrClosed
	}
}

func (s *memorySocket) Write(b []byte) (int, error) {
	s.net.toListener <- memoryDatagram{s.LocalAddr(), bytes.Clone(b)}
	return len(b), nil
}

func (s *memorySocket) LocalAddr() net.Addr              { return memoryAddress(s.port) }
func (s *memorySocket) RemoteAddr() net.Addr             { return memoryAddress(0) }
func (s *memorySocket) SetDeadline(time.Time) error      { return nil }
func (s *memorySocket) SetReadDeadline(time.Time) error  { return nil }
func (s *memorySocket) SetWriteDeadline(time.Time) error { return nil }
func (s *memorySocket) Close() error                     { return nil }

// gorkPair is a connection of go-raknet with itself.
type gorkPair struct{ client, server *gork.Conn }

// newGorkPairs connects count pairs through one listener.
func newGorkPairs(b *testing.B, count int) []gorkPair {
	between := newMemoryNet()
	l, err := gork.ListenConfig{UpstreamPacketListener: between}.Listen("192.0.2.1:0")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { close(between.closed) })
	pairs := make([]gorkPair, count)
	for i := range pairs {
		client, err := gork.Dialer{UpstreamDialer: between}.DialContext(b.Context(), "192.0.2.1:0")
		if err != nil {
			b.Fatal(err)
		}
		server, err := l.Accept()
		if err != nil {
			b.Fatal(err)
		}
		pairs[i] = gorkPair{client, server.(*gork.Conn)}
	}
	return pairs
}

func (p gorkPair) deliver(b *testing.B, payload []byte) {
	if _, err := p.server.Write(payload); err != nil {
		b.Fatal(err)
	}
	if _, err := p.client.ReadPacket(); err != nil {
		b.Fatal(err)
	}
}
