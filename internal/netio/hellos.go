package netio

import (
	"net/netip"

	"tidegate/internal/source"
)

// HelloLimits bound a listener's connections until the handler keeps their first frame. A closed connection without
// a session counts until its descriptor is free. 0 means no bound.
type HelloLimits struct {
	Address int // of one address; in IPv6 of one /64
	Network int // of one IPv4 /24 or IPv6 /48
	Overall int
}

// hellos counts a listener's connections without a session. It has at most one key for each of them.
type hellos struct {
	limits              HelloLimits
	all                 int
	addresses, networks map[netip.Prefix]int
}

func newHellos(l HelloLimits) hellos {
	return hellos{limits: l, addresses: make(map[netip.Prefix]int), networks: make(map[netip.Prefix]int)}
}

// helloKeys returns the address and the network by which a peer counts.
func helloKeys(peer netip.AddrPort) (address, network netip.Prefix) {
	of := source.Of(peer.Addr())
	return of.Address(), of.Network()
}

// take counts a connection. It reports false, and counts nothing, if there are too many.
func (h *hellos) take(peer netip.AddrPort) bool {
	address, network := helloKeys(peer)
	l := &h.limits
	switch {
	case l.Overall > 0 && h.all >= l.Overall,
		l.Address > 0 && h.addresses[address] >= l.Address,
		l.Network > 0 && h.networks[network] >= l.Network:
		return false
	}
	h.all++
	h.addresses[address]++
	h.networks[network]++
	return true
}

// leave stops counting a connection.
func (h *hellos) leave(peer netip.AddrPort) {
	address, network := helloKeys(peer)
	h.all--
	if h.addresses[address]--; h.addresses[address] == 0 {
		delete(h.addresses, address)
	}
	if h.networks[network]--; h.networks[network] == 0 {
		delete(h.networks, network)
	}
}
