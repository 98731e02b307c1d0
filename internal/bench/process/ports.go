package process

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync/atomic"
)

// Ports of FreeAddr and FreeTCPAddr. The kernel takes the ports of sockets that name none from above 32767, or from
// above 49151, so no other socket gets one of these between the choice and its use.
const (
	firstPort = 20000
	numPorts  = 32768 - firstPort
)

// nextPort counts the ports that were tried, from a random one on: two benchmarks may run at once.
var nextPort atomic.Uint32

func init() { nextPort.Store(rand.Uint32N(numPorts)) }

// FreeAddr returns a UDP address that no socket uses, and that no earlier call has returned.
func FreeAddr(at netip.Addr) (netip.AddrPort, error) {
	return freeAddr(at, func(a netip.AddrPort) error {
		socket, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(a))
		if err != nil {
			return err
		}
		return socket.Close()
	})
}

// FreeTCPAddr returns a TCP address at Loopback that no socket uses, and that no earlier call has returned.
func FreeTCPAddr() (netip.AddrPort, error) {
	return freeAddr(Loopback, func(a netip.AddrPort) error {
		listener, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(a))
		if err != nil {
			return err
		}
		return listener.Close()
	})
}

func freeAddr(at netip.Addr, try func(netip.AddrPort) error) (a netip.AddrPort, err error) {
	for range numPorts {
		a = netip.AddrPortFrom(at, uint16(firstPort+nextPort.Add(1)%numPorts))
		if err = try(a); err == nil {
			return a, nil
		}
	}
	return netip.AddrPort{}, fmt.Errorf("no free port at %v: %w", at, err)
}
