// Package freeport finds ports for the benchmarks and tests that bind an address later, or a second time.
package freeport

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
)

// The ports of Find. The kernel takes the ports of sockets that name none from above 32767, or from above 49151, so no
// other socket gets one of these between the choice and its use. A port that such a socket had is not safe.
const (
	firstPort = 20000
	numPorts  = 32768 - firstPort
)

// blockPorts is the size of a block. A process takes its ports from blocks that no other process has.
const (
	blockPorts = 228
	numBlocks  = numPorts / blockPorts
)

// ports are those of this process that were not tried yet.
var ports struct {
	sync.Mutex
	block, used int            // of the block, which is claimed if used is not 0
	claims      []net.Listener // which must not be collected
}

// Find returns an address whose port is free for UDP and for TCP, and that no earlier call has returned.
func Find(at netip.Addr) (netip.AddrPort, error) {
	ports.Lock()
	defer ports.Unlock()
	var err error
	for range numPorts {
		a := netip.AddrPortFrom(at, next())
		if err = try(a); err == nil {
			return a, nil
		}
	}
	return netip.AddrPort{}, fmt.Errorf("no free port at %v: %w", at, err)
}

// next returns the next port of the block, or the first one of another block. If all blocks are claimed, that may be
// another process's.
func next() uint16 {
	if ports.used == 0 || ports.used == blockPorts {
		from := rand.IntN(numBlocks)
		for i := range numBlocks {
			ports.block, ports.used = (from+i)%numBlocks, 1
			if claim(ports.block) {
				break
			}
		}
	}
	ports.used++
	return uint16(firstPort + ports.block*blockPorts + ports.used - 1)
}

// claim claims a block for this process until it ends, by its first port, and reports whether no other process has it.
// A lock on a file would claim it only among processes with the same directory for temporary files.
func claim(block int) bool {
	l, err := net.Listen("tcp4", fmt.Sprintf("0.0.0.0:%d", firstPort+block*blockPorts))
	if err == nil {
		ports.claims = append(ports.claims, l)
	}
	return err == nil
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
