package config

import (
	"fmt"
	"runtime"
)

// Listener is an address that players connect to.
type Listener struct {
	Name      string    `toml:"name"`
	Address   Address   `toml:"address"`
	Transport Transport `toml:"transport"`
	Protocols []string  `toml:"protocols"` // tried in this order on a client's first datagram
	Route     string    `toml:"route"`     // name of a Route

	ProxyProtocolFrom []Network `toml:"proxy_protocol_from"` // trusted sources of PROXY protocol headers
}

func (l *Listener) setDefaults() { *l = Listener{Transport: UDP, ProxyProtocolFrom: []Network{}} }

// listeners checks the listeners, and that no two of them receive the same datagrams.
func (v *validator) listeners() {
	if len(v.Listeners) == 0 {
		want := "at least one [[listener]] table"
		if len(v.Routes)+len(v.Upstreams) == 0 {
			want += ", with a [[route]] and an [[upstream]]"
		}
		v.fault("listener", nil, want)
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
		if v.Loop.isPortable(runtime.GOOS) && l.Transport == UDP && l.Address.Addr().IsUnspecified() {
			v.warn(child(path, "address"), l.Address, "one address of this machine, if it has several: with this backend "+
				"answers may leave from another one than the player used")
		}
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
