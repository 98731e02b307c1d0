// Package udppath is a path to a server that tests switch to another server, as an anycast address or a load balancer
// does.
package udppath

import (
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
)

// Path carries the datagrams of one client. Both servers see the same client's address.
type Path struct {
	near, far *net.UDPConn
	client    atomic.Pointer[netip.AddrPort]
	server    atomic.Pointer[netip.AddrPort]
}

// New returns a path to a server, which ends with the test.
func New(t testing.TB, server netip.AddrPort) *Path {
	t.Helper()
	p := new(Path)
	p.Switch(server)
	for _, conn := range []**net.UDPConn{&p.near, &p.far} {
		var err error
		if *conn, err = net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)}); err != nil {
			t.Fatal(err)
		}
	}
	var ended sync.WaitGroup
	ended.Go(func() {
		carry(p.near, p.far, func(from netip.AddrPort) netip.AddrPort {
			p.client.Store(&from)
			return *p.server.Load()
		})
	})
	ended.Go(func() {
		carry(p.far, p.near, func(netip.AddrPort) netip.AddrPort {
			if to := p.client.Load(); to != nil {
				return *to
			}
			return netip.AddrPort{}
		})
	})
	t.Cleanup(func() {
		_, _ = p.near.Close(), p.far.Close()
		ended.Wait()
	})
	return p
}

// Addr returns the address that the client dials.
func (p *Path) Addr() netip.AddrPort { return p.near.LocalAddr().(*net.UDPAddr).AddrPort() }

// Switch leads the client's further datagrams to another server.
func (p *Path) Switch(server netip.AddrPort) { p.server.Store(&server) }

func carry(from, to *net.UDPConn, target func(source netip.AddrPort) netip.AddrPort) {
	b := make([]byte, 1<<16)
	for {
		n, source, err := from.ReadFromUDPAddrPort(b)
		if err != nil {
			return
		}
		if at := target(source); at.IsValid() {
			_, _ = to.WriteToUDPAddrPort(b[:n], at) // a lost datagram is part of UDP
		}
	}
}
