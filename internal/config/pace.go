package config

import (
	"fmt"
	"net/netip"
	"reflect"
)

// IP is an IP address, as it was written.
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

// Addr is the address itself, and IPv4's within IPv6 as IPv4.
func (a IP) Addr() netip.Addr {
	parsed, _ := netip.ParseAddr(string(a)) // which it was when it was read
	return parsed.Unmap()
}

// maxPackets is the most datagrams of a pace.
const maxPackets = 10_000

// path checks how an upstream's servers are reached: from which addresses, and how fast.
func (v *validator) path(path string, u Upstream) {
	within(v.report, child(path, "max_packets"), u.MaxPackets, 0, maxPackets)
	within(v.report, child(path, "max_packets_per"), u.MaxPacketsPer, milliseconds(1), seconds(1))
	if u.Transport == TCP && u.MaxPackets > 0 {
		v.fault(child(path, "max_packets"), u.MaxPackets, "0: TCP has its own pace")
	}
	sources := child(path, "sources")
	if u.Transport == TCP && len(u.Sources) > 0 {
		v.fault(sources, u.Sources, "[]: only UDP is sent from chosen addresses")
	}
	for j, source := range u.Sources {
		if addr := source.Addr(); addr.IsValid() && !single(addr) {
			v.fault(item(sources, j), source, "an address of this machine")
		}
	}
	if len(u.Sources) == 0 {
		return
	}
	once(v.report, sources, u.Sources, "")
	for j, server := range u.Servers {
		if addr := server.Address.Addr(); addr.IsValid() && !v.reachable(addr, u.Sources) {
			v.fault(sources, u.Sources, fmt.Sprintf("also an address of the family of %s", v.where(item(child(path, "servers"), j))))
		}
	}
}

// reachable reports whether a server can be spoken to from any of the sources.
func (v *validator) reachable(server netip.Addr, sources []IP) bool {
	for _, source := range sources {
		if source.Addr().Is4() == server.Unmap().Is4() {
			return true
		}
	}
	return false
}
