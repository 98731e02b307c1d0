package proxy_test

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"tidegate/codec"
)

// patience is how long a test waits for an event. Only a failing test waits for so long.
const patience = 90 * time.Second

// streamPeer is a game's end of a Riptide connection over TCP: a codec.Conn on top of package net.
type streamPeer struct {
	t      *testing.T
	conn   codec.Conn
	stream *net.TCPConn
	in     *bufio.Reader
	wide   bool // 4-byte prefixes
	over   bool // the stream has ended
}

func newStreamPeer(t *testing.T, stream *net.TCPConn, wide bool) *streamPeer {
	t.Cleanup(func() { _ = stream.Close() })
	return &streamPeer{t: t, stream: stream, in: bufio.NewReader(stream), wide: wide}
}

// dialStream opens a TCP connection to the proxy and sends nothing.
func dialStream(t *testing.T, to netip.AddrPort, wide bool) *streamPeer {
	t.Helper()
	stream, err := net.DialTCP("tcp", nil, net.TCPAddrFromAddrPort(to))
	if err != nil {
		t.Fatal(err)
	}
	return newStreamPeer(t, stream, wide)
}

// write writes one frame.
func (p *streamPeer) write(frame []byte) {
	var b []byte
	if p.wide {
		b = binary.LittleEndian.AppendUint32(nil, uint32(len(frame)))
	} else {
		b = binary.LittleEndian.AppendUint16(nil, uint16(len(frame)))
	}
	_, _ = p.stream.Write(append(b, frame...)) // an error appears at the next read
}

// read reads one frame before a deadline.
func (p *streamPeer) read(deadline time.Time) ([]byte, error) {
	_ = p.stream.SetReadDeadline(deadline)
	size := 2
	if p.wide {
		size = 4
	}
	head, err := p.in.Peek(size) // so that a deadline between two bytes loses none
	if err != nil {
		return nil, err
	}
	n := int(binary.LittleEndian.Uint16(head))
	whole, err := p.in.Peek(size + n)
	if err != nil {
		return nil, err
	}
	frame := bytes.Clone(whole[size:])
	_, _ = p.in.Discard(len(whole))
	return frame, nil
}

// await drives the connection until an event of a kind, and returns it. Other events go to react, if that is not nil.
func (p *streamPeer) await(kind codec.EventKind, react func(ev codec.Event)) codec.Event {
	p.t.Helper()
	limit := time.Now().Add(patience)
	for time.Now().Before(limit) {
		for ev, ok := p.conn.Poll(); ok; ev, ok = p.conn.Poll() {
			ev.Payload = bytes.Clone(ev.Payload)
			if ev.Kind == kind {
				p.flush()
				return ev
			}
			if react != nil {
				react(ev)
			}
		}
		p.flush()
		p.step()
	}
	p.t.Fatalf("%v did not come", kind)
	return codec.Event{}
}

// step reads one frame, or runs due work.
func (p *streamPeer) step() {
	p.t.Helper()
	next := p.conn.NextTimeout()
	if soon := time.Now().Add(50 * time.Millisecond); next.IsZero() || next.After(soon) {
		next = soon
	}
	if p.over {
		p.t.Fatalf("the stream has ended before; %+v", p.conn.Stats())
	}
	frame, err := p.read(next)
	now := time.Now()
	if err == nil {
		_ = p.conn.Receive(now, frame)
		return
	}
	if timeout, ok := err.(net.Error); ok && timeout.Timeout() {
		p.conn.Advance(now)
		return
	}
	p.over = true
}

func (p *streamPeer) flush() {
	var b [codec.MaxDatagram]byte
	for d, ok := p.conn.Transmit(time.Now(), b[:0]); ok; d, ok = p.conn.Transmit(time.Now(), b[:0]) {
		p.write(d)
	}
}

// ends fails unless the stream ends.
func (p *streamPeer) ends() {
	p.t.Helper()
	_ = p.stream.SetReadDeadline(time.Now().Add(patience))
	if _, err := io.Copy(io.Discard, p.in); err != nil {
		if timeout, ok := err.(net.Error); ok && timeout.Timeout() {
			p.t.Error("the stream is still open")
		}
	}
}

// streamServer is a Riptide game server over TCP that serves its clients one by one.
type streamServer struct {
	t        *testing.T
	listener *net.TCPListener
	protocol codec.Protocol
	wide     bool
}

func newStreamServer(t *testing.T, protocol codec.Protocol, wide bool) *streamServer {
	t.Helper()
	listener, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(anyPort))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	return &streamServer{t, listener, protocol, wide}
}

func (s *streamServer) addr() netip.AddrPort {
	return netip.MustParseAddrPort(s.listener.Addr().String())
}

// accept waits for a client's Connect and returns its connection, which expects an Admit or a Close.
func (s *streamServer) accept() *streamPeer {
	s.t.Helper()
	_ = s.listener.SetDeadline(time.Now().Add(patience))
	stream, err := s.listener.AcceptTCP()
	if err != nil {
		s.t.Fatal(err)
	}
	p := newStreamPeer(s.t, stream, s.wide)
	connect, err := p.read(time.Now().Add(patience))
	if err != nil {
		s.t.Fatal(err)
	}
	p.conn, _, err = s.protocol.Accept(time.Now(), netip.AddrPort{}, connect, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	p.await(codec.Asked, nil)
	return p
}
