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
	only      atomic.Pointer[netip.AddrPort] // whose answers arrive; nil: those of any server
	lost      atomic.Uint64
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
		carry(p.far, p.near, func(source netip.AddrPort) netip.AddrPort {
			to, only := p.client.Load(), p.only.Load()
			switch {
			case to == nil:
				return netip.AddrPort{}
			case only != nil && *only != source:
				p.lost.Add(1)
				return netip.AddrPort{}
			}
			return *to
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

// SwitchBoth is Switch, and no other server's answers arrive any more, as with a floating address.
func (p *Path) SwitchBoth(server netip.AddrPort) {
	p.only.Store(&server)
	p.Switch(server)
}

// Lost returns the number of other servers' answers that did not arrive.
func (p *Path) Lost() uint64 { return p.lost.Load() }

// Forge sends a datagram to a server from the address that servers know as the client's.
func (p *Path) Forge(server netip.AddrPort, datagram []byte) {
	_, _ = p.far.WriteToUDPAddrPort(datagram, server)
}

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
