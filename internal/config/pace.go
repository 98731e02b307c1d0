package config

import (
	"fmt"
	"net/netip"
	"reflect"
)

// IP is an IP address as the user wrote it.
type IP string

var ipType = reflect.TypeFor[IP]()

// UnmarshalText reads an address without a zone.
func (a *IP) UnmarshalText(text []byte) error {
	parsed, err := netip.ParseAddr(string(text))
	if err != nil || parsed.Zone() != "" {
		return errUnit
	}
	*a = IP(text)
	return nil
}

// Addr returns the address. IPv4 within IPv6 becomes IPv4.
func (a IP) Addr() netip.Addr {
	parsed, _ := netip.ParseAddr(string(a)) // UnmarshalText has checked it
	return parsed.Unmap()
}

// maxPackets is the largest number of datagrams in a rate.
const maxPackets = 10_000

// sourcesAndRate checks the local addresses and the datagram rate towards an upstream's servers.
func (v *validator) sourcesAndRate(path string, u Upstream) {
	within(v.report, child(path, "max_packets"), u.MaxPackets, 0, maxPackets)
	within(v.report, child(path, "max_packets_per"), u.MaxPacketsPer, milliseconds(1), seconds(1))
	if u.Transport == TCP && u.MaxPackets > 0 {
		v.fault(child(path, "max_packets"), u.MaxPackets, "0: TCP controls its own rate")
	}
	sources := child(path, "sources")
	if u.Transport == TCP && len(u.Sources) > 0 {
		v.fault(sources, u.Sources, "[]: source addresses work only with UDP")
	}
	for j, source := range u.Sources {
		if addr := source.Addr(); addr.IsValid() && !single(addr) {
			v.fault(item(sources, j), source, "an address of this machine")
		}
	}
	if len(u.Sources) == 0 {
		return
	}
	unique(v.report, sources, u.Sources, "")
	for j, server := range u.Servers {
		if addr := server.Address.Addr(); addr.IsValid() && !v.reachable(addr, u.Sources) {
			v.fault(sources, u.Sources, fmt.Sprintf("also an address of the same family as %s", v.where(item(child(path, "servers"), j))))
		}
	}
}

// reachable reports whether some source has the address family of the server.
func (v *validator) reachable(server netip.Addr, sources []IP) bool {
	for _, source := range sources {
		if source.Addr().Is4() == server.Unmap().Is4() {
			return true
		}
	}
	return false
}
