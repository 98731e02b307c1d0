package config

import (
	"fmt"
	"net/netip"
)

// listeners checks the listeners, and that no two of them receive the same datagrams.
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
		unique(v.report, protocols, l.Protocols, `at least one protocol, for example ["raknet"]`)
		v.listenTransport(path, l)
		v.listenProxies(path, l)
		v.sharedProtocols(protocols, l.Protocols)
		v.reference(child(path, "route"), l.Route, "route", namesOf(v.Routes, routeName))
	}
}

// sharedProtocols warns if the datagram of a new client may fit two protocols of a listener.
func (v *validator) sharedProtocols(key string, protocols []string) {
	for j, later := range protocols {
		for _, earlier := range protocols[:j] {
			if all, accepts := v.known[earlier].Accepts[later]; accepts {
				v.warn(item(key, j), later, "one of "+earlier+" and "+later+": "+describeOverlap(earlier, later, all))
				break
			}
			if opener := v.sharedOpener(earlier, later); opener >= 0 {
				v.warn(item(key, j), later, fmt.Sprintf("the more important protocol first, or one listener for each: "+
					"a single byte 0x%02x may open both, and %s is listed first", opener, earlier))
				break
			}
		}
	}
}

// describeOverlap describes the new clients that are left for later, a protocol that is listed after another one.
// With all, earlier accepts all of them.
func describeOverlap(earlier, later string, all bool) string {
	rest := "no players"
	if !all {
		rest = "only players whose first datagram differs"
	}
	return earlier + " is listed first and gets the players of both, so " + later + " gets " + rest
}

// sharedOpener returns a byte that opens both protocols as a whole datagram, or -1.
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
		v.fault(key, address, expected(addressType))
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
