package netio_test

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"tidegate/internal/netio"
)

// TestLocalAddress checks that the peer sees the local address of a socket, and that unusable addresses are refused.
// All of 127.0.0.0/8 is local on Linux only.
func TestLocalAddress(t *testing.T) {
	eachBackend(t, func(t *testing.T, o netio.Options) {
		l := newLoop(t, o)
		server := l.listen(loopback)
		for i, text := range []string{"127.0.0.2", "127.0.0.3"} {
			local := netip.MustParseAddr(text)
			client, err := l.Dial(server.Addr(), netio.SocketOptions{Local: local})
			if err != nil {
				t.Fatal(err)
			}
			if client.Addr().Addr() != local || client.Addr().Port() == 0 {
				t.Errorf("the socket of %s is at %s", local, client.Addr())
			}
			l.send(client, netip.AddrPort{}, "from "+text)
			l.Flush()
			l.untilReceived(i + 1)
			if got, want := l.received[i], (received{server, client.Addr(), "from " + text}); got != want {
				t.Errorf("received %+v, want %+v", got, want)
			}
		}
		for _, text := range []string{"192.0.2.1", "::1"} {
			if _, err := l.Dial(server.Addr(), netio.SocketOptions{Local: netip.MustParseAddr(text)}); err == nil {
				t.Errorf("dialed an IPv4 address from %s, which is not ours or not of its family", text)
			}
		}
	})
}

// TestStreamReusePort checks that two Pollers listen on one address, and that each connection comes to one of them.
func TestStreamReusePort(t *testing.T) {
	const clients = 40
	o := netio.StreamOptions{ReusePort: true}
	a, b := newLoop(t, netio.Options{}), newLoop(t, netio.Options{})
	addr := a.listenStream(o).Addr()
	if _, err := b.ListenStream(addr, o); err != nil {
		t.Fatal(err)
	}
	for i := range clients {
		write(t, netConn(t, addr), framed(fmt.Sprint(i)))
	}
	a.until("all of them", func() bool {
		b.turn(time.Unix(1, 0)) // only polls
		a.Wake()
		return len(a.received)+len(b.received) == clients
	})
	// A Poller without any connection has a chance of 2^-39.
	if len(a.received) == 0 || len(b.received) == 0 {
		t.Errorf("%d and %d connections: not spread", len(a.received), len(b.received))
	}
}
