package netio_test

import (
	"net/netip"
	"runtime"
	"testing"
	"time"

	"tidegate/internal/netio"
)

// patience bounds the wait for an expected event. Only a failing test waits that long.
const patience = 90 * time.Second

// loopback is the default address of listening sockets.
var loopback = netip.MustParseAddrPort("127.0.0.1:0")

// backend is a backend of the platform.
type backend struct {
	name string
	o    netio.Options
}

func backends() []backend {
	all := []backend{{"portable", netio.Options{Backend: netio.Portable}}}
	if runtime.GOOS == "linux" {
		all = append(all, backend{"epoll", netio.Options{Backend: netio.Epoll}})
	}
	return all
}

func eachBackend(t *testing.T, test func(t *testing.T, o netio.Options)) {
	for _, b := range backends() {
		t.Run(b.name, func(t *testing.T) { test(t, b.o) })
	}
}

// turnUntil turns a loop with the handler until done.
func turnUntil(t testing.TB, p netio.Poller, h netio.Handler, what string, done func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !done() {
		if time.Now().After(deadline) {
			t.Fatalf("did not see %s; stats %+v", what, p.Stats())
		}
		if err := p.Wait(deadline); err != nil {
			t.Fatal(err)
		}
		p.Receive(h)
		p.Flush()
	}
}

// loop is a Poller in a test, with all input of its handler.
type loop struct {
	netio.Poller
	t        testing.TB
	received []received
	failed   []failed
	// onDatagram and onFailed, if set, are called as well.
	onDatagram func(s netio.Socket, from netip.AddrPort, datagram []byte)
	onFailed   func(s netio.Socket)
}

type received struct {
	socket   netio.Socket
	from     netip.AddrPort
	datagram string
}

type failed struct {
	socket netio.Socket
	err    error
}

func newLoop(t testing.TB, o netio.Options) *loop {
	t.Helper()
	p, err := netio.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return &loop{Poller: p, t: t}
}

func (l *loop) Datagram(s netio.Socket, from netip.AddrPort, datagram []byte) {
	l.received = append(l.received, received{netio.ListenerOf(s), from, string(datagram)})
	if l.onDatagram != nil {
		l.onDatagram(s, from, datagram)
	}
	for i := range datagram {
		datagram[i] = 0xdd // makes kept references visible
	}
}

func (l *loop) Failed(s netio.Socket, err error) {
	l.failed = append(l.failed, failed{s, err})
	if l.onFailed != nil {
		l.onFailed(s)
	}
}

func (l *loop) listen(addr netip.AddrPort) netio.Socket {
	l.t.Helper()
	s, err := l.Listen(addr, netio.SocketOptions{})
	if err != nil {
		l.t.Fatal(err)
	}
	return s
}

func (l *loop) dial(to netip.AddrPort) netio.Socket {
	l.t.Helper()
	s, err := l.Dial(to, netio.SocketOptions{})
	if err != nil {
		l.t.Fatal(err)
	}
	return s
}

// send queues a datagram in the lent buffer.
func (l *loop) send(s netio.Socket, to netip.AddrPort, datagram string) {
	l.Send(s, to, append(l.Buffer(), datagram...))
}

// until turns the loop until done.
func (l *loop) until(what string, done func() bool) {
	l.t.Helper()
	turnUntil(l.t, l.Poller, l, what, done)
}

func (l *loop) turn(deadline time.Time) {
	l.t.Helper()
	if err := l.Wait(deadline); err != nil {
		l.t.Fatal(err)
	}
	l.Receive(l)
	l.Flush()
}

// untilReceived turns the loop until it has received n datagrams in total.
func (l *loop) untilReceived(n int) {
	l.t.Helper()
	l.until("datagrams", func() bool { return len(l.received) >= n })
}
