package config

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"tidegate/internal/each"
	"tidegate/internal/policy"
	"tidegate/internal/protocols"
	"tidegate/internal/registry"
)

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
		v.listenProxies(path, l)
		v.edge(path, l)
		v.sharedProtocols(protocols, l.Protocols)
		v.reference(child(path, "route"), l.Route, "route", each.Of(v.Routes, routeName))
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
		if v.sharePort(v.Listeners[i], other) && overlap(address, other.Address) {
			v.fault(key, address, "an address and port of its own; "+v.where(item("listener", j))+
				" takes "+other.Address.String())
			return
		}
	}
}

// sharePort reports whether two listeners need the same port at one address. NetherNet's joins come by TCP.
func (v *validator) sharePort(a, b Listener) bool {
	return a.Transport == b.Transport || (a.Transport == TCP || v.isEdge(a)) && (b.Transport == TCP || v.isEdge(b))
}

func (v *validator) isEdge(l Listener) bool {
	return slices.ContainsFunc(l.Protocols, func(name string) bool { return v.known[name].Edge })
}

// listenProxies checks the trusted proxies of a listener.
func (v *validator) listenProxies(path string, l Listener) {
	key := child(path, "proxy_protocol_from")
	if l.Transport == TCP && len(l.ProxyProtocolFrom) > 0 {
		v.fault(key, nil, `an empty list, or transport = "udp": TCP has no datagrams to carry the headers`)
	}
	for i, n := range l.ProxyProtocolFrom {
		if p := n.Prefix(); p.IsValid() && p.Bits() == 0 {
			v.fault(item(key, i), n, "the networks of your own proxies: a trusted proxy can claim any client address")
		}
	}
}

// edge checks the keys of NetherNet's joins.
func (v *validator) edge(path string, l Listener) {
	if !v.isEdge(l) {
		for _, key := range []struct {
			name  string
			isSet bool
		}{
			{"public_addresses", len(l.PublicAddresses) > 0}, {"tls_certificate", l.TLSCertificate != ""},
			{"tls_key", l.TLSKey != ""}, {"identity", l.Identity != IdentityProof},
			{"identity_key", l.IdentityKey != ""}, {"identity_issuer", l.IdentityIssuer != ""},
		} {
			if key.isSet {
				v.warn(child(path, key.name), nil, `no such key, or "nethernet" among the protocols: others do not use it`)
			}
		}
		return
	}
	if len(l.ProxyProtocolFrom) > 0 {
		v.fault(child(path, "proxy_protocol_from"), nil, "an empty list: NetherNet's joins do not know these proxies")
	}
	for i, a := range l.PublicAddresses {
		if a.Addr().IsUnspecified() {
			v.fault(item(child(path, "public_addresses"), i), a, "an address that players can reach")
		}
	}
	switch {
	case l.TLSCertificate != "" && l.TLSKey == "":
		v.fault(child(path, "tls_key"), nil, "the file of the certificate's key")
	case l.TLSCertificate == "" && l.TLSKey != "":
		v.fault(child(path, "tls_certificate"), nil, "the file of the key's certificate")
	}
	v.identity(path, l)
}

// identity checks the keys of NetherNet's identities, which only a route that terminates uses.
func (v *validator) identity(path string, l Listener) {
	i := slices.IndexFunc(v.Routes, func(r Route) bool { return r.Name == l.Route })
	isSet := l.Identity != IdentityProof || l.IdentityKey != "" || l.IdentityIssuer != ""
	switch {
	case i < 0:
	case v.Routes[i].Mode.Is(policy.ModeRelay) && isSet:
		v.warn(child(path, "identity"), nil, `no key of an identity: in mode "relay", the servers have their own`)
	case v.Routes[i].Mode.Is(policy.ModeRelay):
	case l.Identity == IdentityMojang && l.IdentityIssuer == "":
		v.fault(child(path, "identity_issuer"), nil, "the file of the keys of Mojang's service (a JSON Web Key Set)")
	case l.Identity == IdentityNone:
		v.warn(child(path, "identity"), l.Identity, `"proof": without it, recorded logins serve thieves`)
	}
	if i >= 0 && !v.Routes[i].Mode.Is(policy.ModeRelay) && l.IdentityKey == "" {
		v.warn(child(path, "identity_key"), nil, "the file of a key: without it, each start makes one, and players are "+
			"asked whether they trust it")
	}
}

// listenTransport checks that a listener's protocols support its transport.
func (v *validator) listenTransport(path string, l Listener) {
	v.transport(child(path, "transport"), l.Transport, l.Protocols)
	if l.Transport == TCP && len(l.Protocols) > 1 {
		v.fault(child(path, "protocols"), l.Protocols,
			"one protocol: over TCP, each protocol needs its own listener, because they frame messages differently")
	}
}

// transport checks that protocols support a transport. Unknown names are reported elsewhere.
func (v *validator) transport(key string, t Transport, protocols []string) {
	if t != TCP {
		return
	}
	without := slices.DeleteFunc(slices.Clone(protocols), func(name string) bool {
		known, ok := v.known[name]
		return !ok || known.Stream
	})
	if len(without) > 0 {
		able := v.able(func(t Traits) bool { return t.Stream })
		v.fault(key, t, `"udp", or a protocol that supports TCP (`+enumerate(able)+"): "+strings.Join(without, ", ")+
			" does not")
	}
}

// portCount checks the number of ports.
func (v *validator) portCount(key string, a Address) {
	if a.Ports() > maxPorts {
		v.fault(key, a, fmt.Sprintf("at most %d ports", maxPorts))
	}
}

// checkOptions checks a table of a protocol by the protocol's own rules.
func (v *validator) checkOptions(options any, path string) {
	if c, ok := options.(registry.Checker); ok {
		c.Check(optionReport{v, path})
	}
}

// bounded checks the values of a table, and of the tables in it, by the tags of their fields.
func (v *validator) bounded(path string, table reflect.Value) {
	for i := range table.NumField() {
		field, value := table.Type().Field(i), table.Field(i)
		key := child(path, field.Tag.Get("toml"))
		switch {
		case field.Tag.Get("toml") == everyTable:
			for _, d := range protocols.Tables() {
				if options := value.Interface().(Options).Of(d); options != nil {
					v.bounded(child(path, d.Table), reflect.ValueOf(options).Elem())
				}
			}
		case field.Tag.Get("toml") == "":
		case isTable(value.Type()):
			v.bounded(key, value)
		case value.Kind() == reflect.Slice && isTable(value.Type().Elem()):
			for j := range value.Len() {
				v.bounded(item(key, j), value.Index(j))
			}
		default:
			v.bounds(key, value, field.Tag)
		}
	}
}

// bounds checks one value by the tags of its field.
func (v *validator) bounds(key string, value reflect.Value, tags reflect.StructTag) {
	low, high := tags.Get(registry.TagMin), tags.Get(registry.TagMax)
	if processKey(key) != "" && !v.source.has(key) {
		return // it is the process's value, which is checked there
	}
	if _, ok := tags.Lookup(registry.TagSet); ok {
		v.set(key, value)
	}
	switch {
	case high == "":
	case value.Kind() == reflect.String:
		v.length(key, value.String(), high)
	default:
		if n := whole(value); n < whole(bound(value, low)) || n > whole(bound(value, high)) {
			v.fault(key, value.Interface(), render(bound(value, low).Interface())+" to "+render(bound(value, high).Interface()))
		}
	}
}

// length checks the number of bytes of a text.
func (v *validator) length(key, text, high string) {
	if most, _ := strconv.Atoi(high); len(text) > most {
		v.fault(key, text, "at most "+high+" bytes of text")
	}
}

// set checks that a list has no duplicates.
func (v *validator) set(key string, list reflect.Value) {
	elements := make([]any, list.Len())
	for i := range elements {
		elements[i] = list.Index(i).Interface()
	}
	unique(v.report, key, elements, "")
}

// optionReport collects a table's faults.
type optionReport struct {
	v     *validator
	table string
}

// Fault implements registry.Report.
func (r optionReport) Fault(key string, value any, want string) {
	r.v.fault(child(r.table, key), value, want)
}

// Entry implements registry.Report.
func (r optionReport) Entry(key, entry string, value any, want string) {
	r.v.fault(child(child(r.table, key), entry), value, want)
}

// Key implements registry.Report.
func (r optionReport) Key(key string, value *Key, because string, needed bool) {
	r.v.secret(child(r.table, key), because, value, needed)
}

// ownOptions checks the tables of listeners and upstreams.
func (v *validator) ownOptions() {
	for path, of := range v.owners {
		var speaks []string
		switch of := of.(type) {
		case *Listener:
			speaks = of.Protocols
		case *Upstream:
			speaks = []string{of.Protocol}
		}
		for _, table := range tablesOf(of) {
			key := child(path, table)
			v.checkOptions((*of.own())[table], key)
			if !slices.ContainsFunc(speaks, func(name string) bool {
				d := protocols.Find(name)
				return d != nil && d.Table == table
			}) {
				v.fault(key, nil, "no such table, or a protocol that uses it: "+enumerate(speaks)+" does not")
			}
		}
	}
}

// channels warns about listeners that grant ENet's players channels that their servers do not have.
func (v *validator) channels() {
	for i := range v.Listeners {
		l := &v.Listeners[i]
		r := slices.IndexFunc(v.Routes, func(r Route) bool { return r.Name == l.Route })
		if r < 0 || v.Routes[r].Mode.Is(policy.ModeRelay) || !slices.Contains(l.Protocols, "enet") {
			continue
		}
		u := slices.IndexFunc(v.Upstreams, func(u Upstream) bool { return u.Name == v.Routes[r].Upstream })
		if u < 0 || v.Upstreams[u].Protocol != "enet" {
			continue
		}
		key := child(child(item("listener", i), "enet"), "channels")
		granted, asked := channelsOf(l.Own.Over(v.Options)), channelsOf(v.Upstreams[u].Own.Over(v.Options))
		if granted > asked && v.source.has(key) {
			v.warn(key, granted, fmt.Sprintf("at most %d, or a larger enet.channels for %s: messages of further channels "+
				"go to channel 0 of its servers", asked, v.where(item("upstream", u))))
		}
	}
}

func channelsOf(o Options) int { return o["enet"].(*protocols.ENetSettings).Channels }
