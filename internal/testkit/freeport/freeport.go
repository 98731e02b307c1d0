// Package freeport finds ports for the benchmarks and tests that bind an address later, or a second time.
package freeport

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync/atomic"
)

// The ports of Find. The kernel takes the ports of sockets that name none from above 32767, or from above 49151, so no
// other socket gets one of these between the choice and its use. A port that such a socket had is not safe.
const (
	firstPort = 20000
	numPorts  = 32768 - firstPort
)

// next counts the ports that were tried, from a random one on: other programs may do the same now.
var next atomic.Uint32

func init() { next.Store(rand.Uint32N(numPorts)) }

// Find returns an address whose port is free for UDP and for TCP, and that no earlier call has returned.
func Find(at netip.Addr) (netip.AddrPort, error) {
	var err error
	for range numPorts {
		a := netip.AddrPortFrom(at, uint16(firstPort+next.Add(1)%numPorts))
		if err = try(a); err == nil {
			return a, nil
		}
	}
	return netip.AddrPort{}, fmt.Errorf("no free port at %v: %w", at, err)
}

// try binds an address for a moment.
func try(a netip.AddrPort) error {
	socket, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(a))
	if err != nil {
		return err
	}
	defer func() { _ = socket.Close() }()
	listener, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(a))
	if err != nil {
		return err
	}
	return listener.Close()
}

// Loopback returns such an address of 127.0.0.1 for a test (*testing.T or *testing.B), which fails if there is none.
func Loopback(t interface {
	Helper()
	Fatal(args ...any)
},
) netip.AddrPort {
	t.Helper()
	a, err := Find(netip.AddrFrom4([4]byte{127, 0, 0, 1}))
	if err != nil {
		t.Fatal(err)
	}
	return a
}
