package netio_test

import (
	"net"
	"net/netip"
	"testing"

	"tidegate/internal/netio"
)

// readCounter counts datagrams, and the ones without an AfterRead since the one before.
type readCounter struct {
	fresh            bool
	came, unnotified int
}

func (l *readCounter) AfterRead() { l.fresh = true }

func (l *readCounter) Datagram(netio.Socket, netip.AddrPort, []byte) {
	if l.came++; !l.fresh {
		l.unnotified++
	}
	l.fresh = false
}

func (l *readCounter) Failed(netio.Socket, error) {}

// TestAfterRead checks that AfterRead is called after each read of a socket that new clients use.
func TestAfterRead(t *testing.T) {
	eachBackend(t, func(t *testing.T, o netio.Options) {
		p, err := netio.New(o)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = p.Close() }()
		datagrams, err := p.Listen(loopback, netio.SocketOptions{})
		if err != nil {
			t.Fatal(err)
		}
		streams, err := p.ListenStream(loopback, netio.StreamOptions{MaxConns: 1, HelloTimeout: patience})
		if err != nil {
			t.Fatal(err)
		}
		udp, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(datagrams.Addr()))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = udp.Close() }()
		tcp := netConn(t, streams.Addr())
		var h readCounter
		for i, send := range []func() (int, error){
			func() (int, error) { return udp.Write([]byte("hello")) },
			func() (int, error) { return tcp.Write(framed("hello")) },
			func() (int, error) { return udp.Write([]byte("again")) },
			func() (int, error) { return tcp.Write(framed("again")) },
		} {
			if _, err := send(); err != nil {
				t.Fatal(err)
			}
			turnUntil(t, p, &h, "a datagram", func() bool { return h.came > i })
		}
		if h.unnotified > 0 {
			t.Errorf("%d of %d datagrams came without AfterRead", h.unnotified, h.came)
		}
	})
}
