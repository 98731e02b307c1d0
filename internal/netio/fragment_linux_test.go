package netio

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"tidegate/internal/testkit/await"
	"tidegate/internal/testkit/netlab"
)

// TestProbesDoNotArriveInPieces sends datagrams over a cable with a small MTU. The larger one arrives only if
// fragments are allowed.
func TestProbesDoNotArriveInPieces(t *testing.T) {
	near, far := netlab.New(t, "near"), netlab.New(t, "far")
	netlab.Cable(near, "eth0", far, "eth0")
	near.Address("eth0", "10.9.0.1/24")
	far.Address("eth0", "10.9.0.2/24")
	near.SetMTU("eth0", 1300)
	server := netip.MustParseAddrPort("10.9.0.2:7777")
	var receiver net.PacketConn
	var err error
	far.Do(func() { receiver, err = net.ListenPacket("udp", server.String()) })
	if err != nil {
		t.Fatal(err)
	}
	defer receiver.Close()
	p := newEpollPoller(t)
	var s Socket
	near.Do(func() { s, err = p.Dial(server, SocketOptions{DontFragment: true}) })
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		size    int
		allow   bool
		arrives bool
	}{
		{1464, false, false}, // RakNet's first probe
		{1172, false, true},  // its second
		{1464, true, true},
	} {
		if c.allow {
			if err := s.(FragmentControl).AllowFragments(); err != nil {
				t.Fatal(err)
			}
		}
		p.Send(s, netip.AddrPort{}, make([]byte, c.size))
		p.Flush()
		if got := readSize(t, receiver, c.arrives); (got == c.size) != c.arrives {
			t.Errorf("of %d bytes, fragments allowed %v, %d arrived", c.size, c.allow, got)
		}
	}
}

// readSize reads an expected datagram, or checks that none has come.
func readSize(t *testing.T, c net.PacketConn, due bool) int {
	t.Helper()
	wait := await.Patience
	if !due {
		wait = 50 * time.Millisecond
	}
	_ = c.SetReadDeadline(time.Now().Add(wait))
	n, _, err := c.ReadFrom(make([]byte, MaxDatagram))
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal(err)
	}
	return n
}
