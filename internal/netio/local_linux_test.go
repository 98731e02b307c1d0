package netio_test

import (
	"net/netip"
	"testing"

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
