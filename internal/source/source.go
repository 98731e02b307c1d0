// Package source says what an address and a network are: the two sizes of places that clients come from. All limits,
// bans and logs count by them.
package source

import "net/netip"

// Source is the place that a client comes from.
type Source struct{ addr netip.Addr }

// Of returns the source of an address. IPv4-mapped IPv6 is IPv4, and zones do not count.
func Of(a netip.Addr) Source { return Source{a.Unmap().WithZone("")} }

// Address returns the part that one host has: an IPv4 address, or an IPv6 /64, of which a host has all addresses.
func (s Source) Address() netip.Prefix { return s.prefix(32, 64) }

// Network returns the part that one customer or small site has: an IPv4 /24, or an IPv6 /48.
func (s Source) Network() netip.Prefix { return s.prefix(24, 48) }

func (s Source) prefix(v4, v6 int) netip.Prefix {
	bits := v6
	if s.addr.Is4() {
		bits = v4
	}
	p, _ := s.addr.Prefix(bits) // the zero prefix for the zero address
	return p
}
