package proxy_test

import (
	"bytes"
	"net"
	"net/netip"
	"testing"
	"time"

	"tidegate/codec"
)

// udpPeer is a game's end of a connection over UDP: a codec.Conn on top of package net.
type udpPeer struct {
	t      *testing.T
	conn   codec.Conn
	socket *net.UDPConn
	to     netip.AddrPort
	buffer [codec.MaxDatagram]byte

	sent, heard []string // datagrams
}

// dialUDP opens a connection to the proxy. Its socket is connected, so that the kernel spreads such peers over loops.
func dialUDP(t *testing.T, p codec.Protocol, to netip.AddrPort) *udpPeer {
	t.Helper()
	socket, err := net.DialUDP("udp", net.UDPAddrFromAddrPort(anyPort), net.UDPAddrFromAddrPort(to))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = socket.Close() })
	return &udpPeer{t: t, conn: p.Dial(time.Now(), to, codec.Hello{}), socket: socket, to: to}
}

// accept waits for a new client's first datagram.
func (p *udpPeer) accept(protocol codec.Protocol) {
	p.t.Helper()
	_ = p.socket.SetReadDeadline(time.Now().Add(patience))
	n, from, err := p.socket.ReadFromUDPAddrPort(p.buffer[:])
	if err != nil {
		p.t.Fatal(err)
	}
	p.heard = append(p.heard, string(p.buffer[:n]))
	p.to = netip.AddrPortFrom(from.Addr().Unmap(), from.Port())
	if p.conn, _, err = protocol.Accept(time.Now(), p.to, p.buffer[:n], nil); err != nil || p.conn == nil {
		p.t.Fatalf("accept: %v, %v", p.conn, err)
	}
}

// await drives the connection until an event of a kind, and returns it.
func (p *udpPeer) await(kind codec.EventKind) codec.Event {
	p.t.Helper()
	for limit := time.Now().Add(patience); time.Now().Before(limit); p.step() {
		for ev, ok := p.conn.Poll(); ok; ev, ok = p.conn.Poll() {
			if ev.Kind == kind {
				ev.Payload = bytes.Clone(ev.Payload)
				p.flush()
				return ev
			}
		}
		p.flush()
	}
	p.t.Fatalf("%v did not come", kind)
	return codec.Event{}
}

// step reads one datagram, or runs due work.
func (p *udpPeer) step() {
	next := p.conn.NextTimeout()
	if soon := time.Now().Add(50 * time.Millisecond); next.IsZero() || next.After(soon) {
		next = soon
	}
	_ = p.socket.SetReadDeadline(next)
	n, _, err := p.socket.ReadFromUDPAddrPort(p.buffer[:])
	if err != nil {
		p.conn.Advance(time.Now())
		return
	}
	p.heard = append(p.heard, string(p.buffer[:n]))
	_ = p.conn.Receive(time.Now(), p.buffer[:n]) // the tests check events
}

func (p *udpPeer) flush() {
	var b [codec.MaxDatagram]byte
	for d, ok := p.conn.Transmit(time.Now(), b[:0]); ok; d, ok = p.conn.Transmit(time.Now(), b[:0]) {
		p.sent = append(p.sent, string(d))
		if p.socket.RemoteAddr() != nil { // a lost one is resent
			_, _ = p.socket.Write(d)
		} else {
			_, _ = p.socket.WriteToUDPAddrPort(d, p.to)
		}
	}
}
