package raknet_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/raknet"
)

// endpoint runs one connection of ours, of either side, over a UDP socket.
type endpoint struct {
	t        testing.TB
	socket   *net.UDPConn
	protocol *raknet.Protocol
	conn     codec.Conn
	peer     netip.AddrPort

	// loses decides whether the loop's network loses the next datagram, in either direction; nil loses none.
	loses func() bool

	calls  chan func(now time.Time) // run between datagrams
	events chan codec.Event         // payloads cloned
	done   chan struct{}
}

// Addresses where both sides listen, on ports of the system's choice.
const (
	loopback4 = "127.0.0.1:0"
	loopback6 = "[::1]:0"
)

// eventBacklog is more than the number of events in any of these tests.
const eventBacklog = 1 << 16

// listen starts a server of ours that accepts one client. It ends with the test.
func listen(t testing.TB, at string, o raknet.Options) *endpoint {
	e := newEndpoint(t, at, raknet.New(o))
	go e.run()
	return e
}

// dial starts a client of ours. It ends with the test.
func dial(t testing.TB, at string, o raknet.Options, to string) *endpoint {
	e := newEndpoint(t, at, raknet.New(o))
	e.peer = netip.MustParseAddrPort(to)
	e.conn = e.protocol.Dial(time.Now(), e.peer, codec.Hello{})
	go e.run()
	return e
}

func newEndpoint(t testing.TB, at string, p *raknet.Protocol) *endpoint {
	socket, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.MustParseAddrPort(at)))
	if err != nil && at == loopback6 {
		t.Skipf("no IPv6 here: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := socket.SetReadBuffer(4 << 20); err != nil {
		t.Fatal(err)
	}
	e := &endpoint{
		t: t, socket: socket, protocol: p,
		calls: make(chan func(time.Time), 16), events: make(chan codec.Event, eventBacklog), done: make(chan struct{}),
	}
	t.Cleanup(func() {
		socket.Close()
		<-e.done
	})
	return e
}

func (e *endpoint) addr() string { return e.socket.LocalAddr().String() }

// run is the socket loop. It ends when the socket is closed.
func (e *endpoint) run() {
	defer close(e.done)
	buffer := make([]byte, codec.MaxDatagram)
	for {
		e.pump(time.Now())
		n, from, err := e.read(buffer)
		switch now := time.Now(); {
		case errors.Is(err, net.ErrClosed):
			return
		case errors.Is(err, os.ErrDeadlineExceeded):
			e.wake(now)
		case err == nil:
			e.take(now, from, buffer[:n])
		}
	}
}

// read waits for a datagram until the connection or a call is due.
func (e *endpoint) read(buffer []byte) (int, netip.AddrPort, error) {
	var deadline time.Time
	if e.conn != nil {
		deadline = e.conn.NextTimeout()
	}
	if err := e.socket.SetReadDeadline(deadline); err != nil {
		return 0, netip.AddrPort{}, err
	}
	if len(e.calls) > 0 { // the call came before the deadline was set, which replaced the call's own
		return 0, netip.AddrPort{}, os.ErrDeadlineExceeded
	}
	return e.socket.ReadFromUDPAddrPort(buffer)
}

func (e *endpoint) wake(now time.Time) {
	if e.conn != nil {
		e.conn.Advance(now)
	}
	for len(e.calls) > 0 {
		e.pump(now)
		(<-e.calls)(now)
	}
}

func (e *endpoint) take(now time.Time, from netip.AddrPort, datagram []byte) {
	if e.conn != nil {
		if from == e.peer && !e.lost() {
			_ = e.conn.Receive(now, datagram)
		}
		return
	}
	if !e.protocol.Sniff(datagram) {
		return
	}
	conn, reply, _ := e.protocol.Accept(now, from, datagram, nil)
	if len(reply) > 0 {
		_, _ = e.socket.WriteToUDPAddrPort(reply, from)
	}
	if conn != nil {
		e.conn, e.peer = conn, from
	}
}

// pump takes all events and datagrams from the connection.
func (e *endpoint) pump(now time.Time) {
	if e.conn == nil {
		return
	}
	for event, ok := e.conn.Poll(); ok; event, ok = e.conn.Poll() {
		if event.Kind == codec.Asked {
			e.conn.Admit(now, 1)
		}
		event.Payload = bytes.Clone(event.Payload)
		e.events <- event
	}
	var room [codec.MaxDatagram]byte
	for b, ok := e.conn.Transmit(now, room[:0]); ok; b, ok = e.conn.Transmit(now, room[:0]) {
		if !e.lost() {
			_, _ = e.socket.WriteToUDPAddrPort(b, e.peer)
		}
	}
}

func (e *endpoint) lost() bool { return e.loses != nil && e.loses() }

// do runs f on the loop.
func (e *endpoint) do(f func(now time.Time)) {
	e.calls <- f
	_ = e.socket.SetReadDeadline(time.Unix(1, 0))
}

func (e *endpoint) send(payload []byte) {
	e.do(func(now time.Time) {
		if err := e.conn.Send(now, codec.Message{Payload: payload, Mode: codec.ReliableOrdered}); err != nil {
			e.t.Errorf("send: %v", err)
		}
	})
}

func (e *endpoint) close() {
	e.do(func(now time.Time) { e.conn.Close(now, codec.Goodbye{Reason: codec.Closed}) })
}

// want waits for an event of the kind and skips others.
func (e *endpoint) want(ctx context.Context, kind codec.EventKind) codec.Event {
	e.t.Helper()
	for {
		select {
		case event := <-e.events:
			if event.Kind == kind {
				return event
			}
			if event.Kind == codec.Disconnected {
				e.t.Fatalf("disconnected for %v while waiting for %v", event.Reason, kind)
			}
		case <-ctx.Done():
			e.t.Fatalf("no %v: %v", kind, context.Cause(ctx))
		}
	}
}

func (e *endpoint) wantMessage(ctx context.Context, payload []byte) {
	e.t.Helper()
	if got := e.want(ctx, codec.Received); !bytes.Equal(got.Payload, payload) {
		e.t.Fatalf("received %d bytes (%.8x), want %d (%.8x)", len(got.Payload), got.Payload, len(payload), payload)
	}
}
