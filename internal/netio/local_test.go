package netio_test

import (
	"net"
	"net/netip"
	"runtime"
	"testing"

	"tidegate/internal/netio"
)

// answering answers each datagram by the socket that it came by.
type answering struct {
	netio.Poller
	from map[netio.Socket]bool
}

func (a *answering) Datagram(s netio.Socket, from netip.AddrPort, datagram []byte) {
	a.from[s] = true
	a.Send(s, from, datagram)
}

func (*answering) Failed(netio.Socket, error) {}

// TestAnswersLeaveFromTheAskedAddress asks a wildcard listener of each backend at two addresses, also over IPv4 at an
// IPv6 listener. The clients take answers from the asked address alone.
func TestAnswersLeaveFromTheAskedAddress(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("elsewhere loopback has one address")
	}
	eachBackend(t, func(t *testing.T, o netio.Options) {
		for _, any := range []string{"0.0.0.0:0", "[::]:0"} {
			p, err := netio.New(o)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = p.Close() }()
			server, err := p.Listen(netip.MustParseAddrPort(any), netio.SocketOptions{})
			if err != nil {
				t.Fatal(err)
			}
			server.SetOwner("the listener's")
			a := &answering{p, make(map[netio.Socket]bool)}
			for _, host := range []string{"127.0.0.1", "127.9.8.7", "127.0.0.1"} {
				to := netip.AddrPortFrom(netip.MustParseAddr(host), server.Addr().Port())
				conn, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(to))
				if err != nil {
					t.Fatal(err)
				}
				answered := make(chan error, 1)
				go func() {
					defer func() { _ = conn.Close() }()
					_, err := conn.Read(make([]byte, 10))
					answered <- err
					p.Wake()
				}()
				if _, err := conn.Write([]byte("hi")); err != nil {
					t.Fatal(err)
				}
				turnUntil(t, p, a, "the answer from "+host, func() bool { return len(answered) > 0 })
				if err := <-answered; err != nil {
					t.Error(err)
				}
			}
			for s := range a.from {
				if netio.ListenerOf(s) != server || s.Owner() != "the listener's" {
					t.Errorf("a datagram came by %T of %v", s, s.Owner())
				}
			}
			if len(a.from) != 2 {
				t.Errorf("%s: %d local sockets, want 2", any, len(a.from))
			}
		}
	})
}
