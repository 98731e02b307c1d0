// Package source says what an address and a network are: the two sizes of places that clients come from. All limits,
// bans and logs count by them.
package source

import (
	"encoding/binary"
	"net/netip"
)

// Source is the place that a client comes from.
type Source struct{ addr netip.Addr }

// Of returns the source of an address. IPv4-mapped IPv6 is IPv4, and zones do not count.
func Of(a netip.Addr) Source { return Source{a.Unmap().WithZone("")} }

// Address returns the part that one host has: an IPv4 address, or an IPv6 /64, of which a host has all addresses.
func (s Source) Address() netip.Prefix { return s.prefix(32, 64) }

// Network returns the part that one customer or small site has: an IPv4 /24, or an IPv6 /48.
func (s Source) Network() netip.Prefix { return s.prefix(24, 48) }

// Key returns a short key for a map of addresses or of networks: their bits. No host on the internet has the addresses
// 100::/64, of which the keys of IPv4 are.
func Key(p netip.Prefix) uint64 {
	if p.Addr().Is4() {
		b := p.Addr().As4()
		return 1<<56 | uint64(binary.BigEndian.Uint32(b[:]))
	}
	b := p.Addr().As16()
	return binary.BigEndian.Uint64(b[:])
}

func (s Source) prefix(v4, v6 int) netip.Prefix {
	bits := v6
	if s.addr.Is4() {
		bits = v4
	}
	p, _ := s.addr.Prefix(bits) // the zero prefix for the zero address
	return p
}
