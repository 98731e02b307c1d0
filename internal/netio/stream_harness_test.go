package netio_test

import (
	"encoding/binary"
	"net"
	"net/netip"
	"testing"
	"time"

	"tidegate/internal/netio"
)

// framed returns a frame with the prefix of the zero StreamOptions.
func framed(frame string) []byte {
	return append(binary.LittleEndian.AppendUint16(nil, uint16(len(frame))), frame...)
}

func (l *loop) listenStream(o netio.StreamOptions) netio.Socket {
	l.t.Helper()
	s, err := l.ListenStream(loopback, o)
	if err != nil {
		l.t.Fatal(err)
	}
	return s
}

func (l *loop) dialStream(to netip.AddrPort, o netio.StreamOptions) netio.Socket {
	l.t.Helper()
	s, err := l.DialStream(to, o)
	if err != nil {
		l.t.Fatal(err)
	}
	return s
}

// untilFailed turns the loop until it has n failures in total, and returns the last error.
func (l *loop) untilFailed(n int) error {
	l.t.Helper()
	l.until("a failure", func() bool { return len(l.failed) >= n })
	return l.failed[n-1].err
}

// netConn is a TCP connection of package net, with a bound on the time of a test's reads.
func netConn(t testing.TB, to netip.AddrPort) *net.TCPConn {
	t.Helper()
	conn, err := net.DialTCP("tcp", nil, net.TCPAddrFromAddrPort(to))
	if err != nil {
		t.Fatal(err)
	}
	return bounded(t, conn)
}

func bounded(t testing.TB, conn *net.TCPConn) *net.TCPConn {
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return conn
}

// netListener is a listener of package net.
func netListener(t testing.TB) *net.TCPListener {
	t.Helper()
	listener, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(loopback))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	if err := listener.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return listener
}

func acceptNet(t testing.TB, listener *net.TCPListener) *net.TCPConn {
	t.Helper()
	conn, err := listener.AcceptTCP()
	if err != nil {
		t.Fatal(err)
	}
	return bounded(t, conn)
}

func write(t testing.TB, conn *net.TCPConn, b []byte) {
	t.Helper()
	if _, err := conn.Write(b); err != nil {
		t.Fatal(err)
	}
}

// inBackground runs f, which may wait for the loop, while the loop turns.
func (l *loop) inBackground(what string, f func()) {
	l.t.Helper()
	done := make(chan struct{})
	go func() {
		defer l.Wake()
		defer close(done)
		f()
	}()
	l.until(what, func() bool {
		select {
		case <-done:
			return true
		default:
			return false
		}
	})
}
