package config

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// Address is an address and port. Written as ip:first-last, it has every port from the first to the last.
type Address struct {
	netip.AddrPort        // with the first port
	Last           uint16 // 0 if there is only one port
}

// AddressOf returns an address with one port.
func AddressOf(addr netip.AddrPort) Address { return Address{AddrPort: addr} }

// UnmarshalText reads the format of String.
func (a *Address) UnmarshalText(text []byte) error {
	*a = Address{}
	first, last, two := cutLast(string(text))
	if err := a.AddrPort.UnmarshalText([]byte(first)); err != nil || !two {
		return err
	}
	n, err := strconv.ParseUint(last, 10, 16)
	if err != nil || a.Port() == 0 || uint16(n) <= a.Port() {
		return errUnit
	}
	a.Last = uint16(n)
	return nil
}

// cutLast separates the last port. A "-" in an IPv6 zone does not count.
func cutLast(text string) (first, last string, two bool) {
	dash := strings.LastIndexByte(text, '-')
	if dash < strings.LastIndexByte(text, ':') {
		dash = -1
	}
	if dash < 0 {
		return text, "", false
	}
	return text[:dash], text[dash+1:], true
}

// String returns the format that UnmarshalText reads.
func (a Address) String() string {
	if a.Last == 0 {
		return a.AddrPort.String()
	}
	return a.AddrPort.String() + "-" + strconv.Itoa(int(a.Last))
}

// Ports returns the number of ports.
func (a Address) Ports() int {
	if a.Last == 0 {
		return 1
	}
	return int(a.Last-a.Port()) + 1
}

// Nth returns the address with the n-th port, from 0.
func (a Address) Nth(n int) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr(), a.Port()+uint16(n))
}

// sharesPort reports whether two addresses have a common port. Port 0 stands for any free port and for a missing
// address, so it never does.
func (a Address) sharesPort(b Address) bool {
	return a.Port() != 0 && b.Port() != 0 && a.Port() <= max(b.Port(), b.Last) && b.Port() <= max(a.Port(), a.Last)
}

// maxPorts is the largest number of ports of one address. Each port is a socket in every loop.
const maxPorts = 1000

// portCount checks the number of ports.
func (v *validator) portCount(key string, a Address) {
	if a.Ports() > maxPorts {
		v.fault(key, a, fmt.Sprintf("at most %d ports", maxPorts))
	}
}

// ports checks that all servers of an upstream have the same number of ports. If they have several, the listeners
// that lead to them need as many. Players of a listener's n-th port reach the servers' n-th ports.
func (v *validator) ports(i int) {
	u := v.Upstreams[i]
	if len(u.Servers) == 0 {
		return
	}
	servers := child(item("upstream", i), "servers")
	first := u.Servers[0].Address
	v.portCount(item(servers, 0), first)
	for j, server := range u.Servers[1:] {
		if server.Address.IsValid() && server.Address.Ports() != first.Ports() {
			v.fault(item(servers, j+1), server, fmt.Sprintf("as many ports as %s, which has %d", item(servers, 0), first.Ports()))
		}
	}
	if first.Ports() == 1 {
		return
	}
	for _, r := range v.Routes {
		for j, l := range v.Listeners {
			if r.Upstream == u.Name && l.Route == r.Name && l.Address.Ports() != first.Ports() {
				v.fault(child(item("listener", j), "address"), l.Address, fmt.Sprintf("%d ports, as many as the servers of %s have",
					first.Ports(), v.where(item("upstream", i))))
			}
		}
	}
}
