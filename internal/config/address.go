package config

import (
	"fmt"
	"net/netip"
)

// listeners checks the listeners and that no two take the same datagrams.
func (v *validator) listeners() {
	if len(v.Listeners) == 0 {
		v.fault("listener", nil, "at least one [[listener]] table")
	}
	for i, l := range v.Listeners {
		path := item("listener", i)
		v.listenAddress(i)
		protocols := child(path, "protocols")
		for j, name := range l.Protocols {
			v.protocol(item(protocols, j), name, func(t Traits) bool { return t.Server })
		}
		once(v.report, protocols, l.Protocols, `at least one protocol, for example ["raknet"]`)
		v.listenTransport(path, l)
		v.listenProxies(path, l)
		v.openers(protocols, l.Protocols)
		v.reference(child(path, "route"), l.Route, "route", namesOf(v.Routes, routeName))
	}
}

// openers warns where a newcomer's datagram may open two of a listener's protocols.
func (v *validator) openers(key string, protocols []string) {
	for j, later := range protocols {
		for _, earlier := range protocols[:j] {
			if all, taken := v.known[earlier].Takes[later]; taken {
				v.warn(item(key, j), later, "one of "+earlier+" and "+later+": "+overshadowed(earlier, later, all))
				break
			}
			if opener := v.sharedOpener(earlier, later); opener >= 0 {
				v.warn(item(key, j), later, fmt.Sprintf("the protocol that matters more first, or a listener each: "+
					"a lone byte 0x%02x may open both, and %s, which comes first, gets it", opener, earlier))
				break
			}
		}
	}
}

// overshadowed says what a protocol is left by another that comes first and takes its newcomers, or all of them.
func overshadowed(earlier, later string, all bool) string {
	rest := "none"
	if !all {
		rest = "only those who open otherwise"
	}
	return earlier + " comes first and gets the players of both, and " + later + " " + rest
}

// sharedOpener is a byte that opens both protocols, or -1.
func (v *validator) sharedOpener(one, other string) int {
	a, b := v.known[one].Openers, v.known[other].Openers
	for opener := range 256 {
		if a.Has(byte(opener)) && b.Has(byte(opener)) {
			return opener
		}
	}
	return -1
}

func (v *validator) listenAddress(i int) {
	key := child(item("listener", i), "address")
	address := v.Listeners[i].Address
	if !address.IsValid() {
		v.fault(key, address, wanted(addressType))
		return
	}
	v.portCount(key, address)
	for j, other := range v.Listeners[:i] {
		if other.Transport == v.Listeners[i].Transport && overlap(address, other.Address) {
			v.fault(key, address, "an address and port of its own; "+v.where(item("listener", j))+
				" takes "+other.Address.String())
			return
		}
	}
}

// overlap reports whether two listening addresses would take the same datagrams.
func overlap(a, b Address) bool {
	if !a.sharesPort(b) {
		return false
	}
	one, other := a.Addr().Unmap(), b.Addr().Unmap()
	return one == other || covers(one, other) || covers(other, one)
}

// covers reports whether a is a wildcard that includes b. The one of IPv6 includes IPv4 as well.
func covers(a, b netip.Addr) bool {
	return a.IsUnspecified() && (a.Is6() || b.Is4())
}

// single reports whether an address can be that of one machine.
func single(a netip.Addr) bool {
	a = a.Unmap()
	return !a.IsUnspecified() && !a.IsMulticast() && a != netip.AddrFrom4([4]byte{255, 255, 255, 255})
}

// reaches reports whether datagrams to server surely arrive at a listening address of this very process.
func reaches(server, listener Address) bool {
	to := server.Addr().Unmap()
	return overlap(server, listener) && (to == listener.Addr().Unmap() || to.IsLoopback())
}
