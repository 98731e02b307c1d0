package config

import (
	"net/netip"
	"reflect"
	"strconv"
	"strings"

	"tidegate/internal/cidr"
)

// Address is an address and port. Written as ip:first-last, it has every port from the first to the last.
type Address struct {
	netip.AddrPort        // with the first port
	Last           uint16 // 0 if there is only one port
}

// AddressOf returns an address with one port.
func AddressOf(addr netip.AddrPort) Address { return Address{AddrPort: addr} }

// UnmarshalText reads the format of String. Without an IP address before the colon it is a port of all addresses.
func (a *Address) UnmarshalText(text []byte) error {
	*a = Address{}
	first, last, two := cutLast(string(text))
	if strings.HasPrefix(first, ":") && !strings.Contains(first[1:], ":") {
		first = "[::]" + first
	}
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

// overlap reports whether two listening addresses would receive the same datagrams.
func overlap(a, b Address) bool {
	if !a.sharesPort(b) {
		return false
	}
	one, other := a.Addr().Unmap(), b.Addr().Unmap()
	return one == other || covers(one, other) || covers(other, one)
}

// covers reports whether a is a wildcard address that includes b. The IPv6 wildcard includes IPv4.
func covers(a, b netip.Addr) bool {
	return a.IsUnspecified() && (a.Is6() || b.Is4())
}

// single reports whether an address can belong to one machine.
func single(a netip.Addr) bool {
	a = a.Unmap()
	return !a.IsUnspecified() && !a.IsMulticast() && a != netip.AddrFrom4([4]byte{255, 255, 255, 255})
}

// reaches reports whether datagrams to server certainly arrive at a listening address of this process.
func reaches(server, listener Address) bool {
	to := server.Addr().Unmap()
	return overlap(server, listener) && (to == listener.Addr().Unmap() || to.IsLoopback())
}

// Prefix is a network, or a single address, as the user wrote it.
type Prefix string

var prefixType = reflect.TypeFor[Prefix]()

// UnmarshalText accepts the formats of package cidr.
func (p *Prefix) UnmarshalText(text []byte) error {
	_, err := cidr.Parse(string(text))
	*p = Prefix(text)
	return err
}

// Prefix returns the network. A single address becomes a network with one address.
func (p Prefix) Prefix() netip.Prefix {
	parsed, _ := cidr.Parse(string(p)) // UnmarshalText has checked it
	return parsed
}

// Networks returns the prefixes of a list.
func Networks(list []Prefix) []netip.Prefix {
	all := make([]netip.Prefix, len(list))
	for i, n := range list {
		all[i] = n.Prefix()
	}
	return all
}
