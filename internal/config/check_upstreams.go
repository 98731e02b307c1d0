package config

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	"tidegate/codec/raknet"
	"tidegate/internal/each"
	"tidegate/internal/policy"
	"tidegate/internal/regular"
)

func (v *validator) upstreams() {
	for i, u := range v.Upstreams {
		path := item("upstream", i)
		v.protocol(child(path, "protocol"), u.Protocol, func(t Traits) bool { return t.Client })
		v.transport(child(path, "transport"), u.Transport, []string{u.Protocol})
		v.servers(i)
		if u.Transport == TCP && !u.ProxyProtocol.Is(policy.HeadersOff) {
			v.fault(child(path, "proxy_protocol"), u.ProxyProtocol,
				`"off", or transport = "udp": TCP has no datagrams to carry the headers`)
		}
		v.health(path, &v.Upstreams[i])
		v.discover(path, u)
		v.kubernetes(path, u)
		v.agones(path, u)
		v.packets(path, u)
		v.sources(i)
		v.ports(i)
		v.upstreamCookies(path, &v.Upstreams[i])
		if u.IdentityKey != "" && !v.known[u.Protocol].Edge {
			v.warn(child(path, "identity_key"), nil, `no such key, or the protocol "nethernet": other servers are not shown it`)
		}
	}
}

// health checks the options of health checks. Servers that clients join over HTTP are asked so.
func (v *validator) health(path string, u *Upstream) {
	key := child(path, "health")
	switch t := v.known[u.Protocol]; {
	case u.Health == HealthAuto && (t.Edge || v.isEdged(u.Name, policy.ModeRelay)):
		u.Health = HealthHTTP
	case u.Health == HealthPing && !t.Pings, u.Health == HealthPing && u.Transport == TCP:
		v.fault(key, u.Health, `"connect" or "off": `+u.Protocol+" servers do not answer pings")
	case u.Health == HealthHTTP && !t.Edge && !v.isEdged(u.Name, policy.ModeTerminate) &&
		!v.isEdged(u.Name, policy.ModeRelay):
		v.fault(key, u.Health, `"auto": no listener with "nethernet" leads to it, so nobody would ask`)
	case u.Health == HealthConnect && t.Pings:
		v.fault(key, u.Health, `"ping", which players do not notice`)
	case u.Health == HealthConnect && (t.Closed || t.Opaque):
		v.fault(key, u.Health, `"off": `+u.Protocol+" has no disconnect message, so each check would remain in the game")
	}
}

// isEdged reports whether NetherNet's clients come to an upstream by a route of a mode.
func (v *validator) isEdged(upstream string, mode policy.Mode) bool {
	return slices.ContainsFunc(v.Listeners, func(l Listener) bool {
		return slices.ContainsFunc(l.Protocols, func(name string) bool { return v.known[name].Edge }) &&
			slices.ContainsFunc(v.Routes, func(r Route) bool {
				return r.Name == l.Route && r.Upstream == upstream && r.Mode.Is(mode)
			})
	})
}

// servers checks the servers of an upstream.
func (v *validator) servers(i int) {
	key := child(item("upstream", i), "servers")
	servers := v.Upstreams[i].Servers
	addrs := each.Of(servers, func(s Server) Address { return s.Address })
	if len(addrs) > 0 || !v.Upstreams[i].Discovers() {
		unique(v.report, key, addrs, `at least one ip:port, for example ["127.0.0.1:19132"]`)
	}
	for j, server := range servers {
		path, addr := item(key, j), server.Address
		if !addr.IsValid() {
			v.fault(path, nil, expected(serverType))
			continue
		}
		if addr.Port() == 0 || !single(addr.Addr()) {
			v.fault(path, server, "the address and port that the game server listens on")
		}
		for k, l := range v.Listeners {
			if l.Transport == v.Upstreams[i].Transport && reaches(addr, l.Address) {
				v.fault(path, server, "a game server; this is "+v.where(item("listener", k))+" of Tidegate itself")
			}
		}
		within(v.report, child(path, "weight"), server.Weight, 1, maxWeight)
		within(v.report, child(path, "max_sessions"), server.MaxSessions, 0, maxSessions)
	}
}

// ports checks that all servers of an upstream have the same number of ports. If they have several, the listeners
// that lead to them need as many. Players of a listener's n-th port reach the servers' n-th ports.
func (v *validator) ports(i int) {
	u := v.Upstreams[i]
	if len(u.Servers) == 0 {
		return
	}
	servers := child(item("upstream", i), "servers")
	first := u.Servers[0].Address
	v.portCount(item(servers, 0), first)
	for j, server := range u.Servers[1:] {
		if server.Address.IsValid() && server.Address.Ports() != first.Ports() {
			v.fault(item(servers, j+1), server, fmt.Sprintf("as many ports as %s, which has %d", item(servers, 0),
				first.Ports()))
		}
	}
	if first.Ports() == 1 {
		return
	}
	for _, r := range v.Routes {
		for j, l := range v.Listeners {
			if r.Upstream == u.Name && l.Route == r.Name && l.Address.Ports() != first.Ports() {
				v.fault(child(item("listener", j), "address"), l.Address, fmt.Sprintf("%d ports, as many as the servers of %s have",
					first.Ports(), v.where(item("upstream", i))))
			}
		}
	}
}

// packets checks the datagram rate towards an upstream's servers.
func (v *validator) packets(path string, u Upstream) {
	switch t := v.known[u.Protocol]; {
	case u.Library != AnyLibrary && u.Protocol != "raknet" && u.Protocol != "bedrock" && !t.Opaque:
		v.fault(child(path, "server_library"), u.Library, `"any": only servers of raknet and bedrock differ`)
	}
	if u.Transport == TCP && u.MaxPackets > 0 {
		v.fault(child(path, "max_packets"), u.MaxPackets, "0: TCP controls its own rate")
	}
}

// sources checks from where sessions are sent to an upstream's servers.
func (v *validator) sources(i int) {
	u, key := &v.Upstreams[i], child(item("upstream", i), "sources")
	if len(u.Sources) == 0 {
		return
	}
	unique(v.report, key, u.Sources, "")
	switch {
	case u.Transport == TCP:
		v.fault(key, u.Sources, "no sources: they work only with UDP")
	case !u.SeparatesPlayers():
		v.sourceAddresses(key, u)
	case len(u.Sources) > 1:
		v.fault(key, u.Sources, `addresses or "shared", or one prefix, or "players" alone`)
	case v.Loop.Backend == BackendPortable:
		v.fault(key, u.Sources, `addresses, or loop.backend = "auto": portable sockets cannot choose their address`)
	case !u.Transparent():
		v.sourcePrefix(key, u)
	}
}

// sourceAddresses checks the addresses of this machine that sessions are spread over.
func (v *validator) sourceAddresses(key string, u *Upstream) {
	for j, source := range u.Sources {
		if addr := source.addr(); addr.IsValid() && !single(addr) {
			v.fault(item(key, j), source, "an address of this machine")
		}
	}
	all := u.SourceAddresses() // of sources without a fault
	for j, server := range u.Servers {
		addr := server.Address.Addr()
		reaches := func(a netip.Addr) bool { return a.Is4() == addr.Unmap().Is4() }
		if addr.IsValid() && len(all) > 0 && !slices.ContainsFunc(all, reaches) {
			v.fault(key, u.Sources, fmt.Sprintf("also an address of the same family as %s",
				v.where(item(child(parent(key), "servers"), j))))
		}
	}
}

// sourcePrefix checks that each session can have its own address.
func (v *validator) sourcePrefix(key string, u *Upstream) {
	prefix := u.SourcePrefix()
	for _, server := range u.Servers {
		if server.Address.IsValid() && server.Address.Addr().Unmap().Is4() != prefix.Addr().Is4() {
			v.fault(key, u.Sources, "a prefix of the servers' address family, or one upstream for each family: "+
				server.String()+" has the other family")
			return
		}
	}
	if bits := prefix.Addr().BitLen() - prefix.Bits(); bits < 31 && (1<<bits)*len(u.Servers) < v.Limits.Sessions {
		v.warn(key, u.Sources, "a shorter prefix: each session at a server needs its own address, and "+
			"limits.sessions allows more sessions than that")
	}
}

// discover checks the sources of an upstream's servers.
func (v *validator) discover(path string, u Upstream) {
	for i, d := range u.Discover {
		for _, other := range u.Discover[:i] {
			if d == other && d != (Discover{}) {
				v.fault(item(child(path, "discover"), i), d, "each place once")
			}
		}
	}
	if r := u.Resolver; r.IsValid() && (r.Port() == 0 || r.Last != 0 || !single(r.Addr())) {
		v.fault(child(path, "resolver"), r, "the address and port of a DNS server")
	}
}

// loadKey returns a checked key. If it is "file:" and a path, loadKey reads the file.
func (v *validator) loadKey(k Key) (Key, error) {
	if path, ok := strings.CutPrefix(string(k), fileKey); ok {
		content, err := regular.ReadFile(v.Path(path))
		if err != nil {
			return k, err
		}
		k = Key(strings.TrimSpace(string(content)))
	}
	b, err := hex.DecodeString(string(k))
	if err == nil && len(b) != len(k.Bytes()) {
		err = fmt.Errorf("%d bytes, not %d", len(b), len(k.Bytes()))
	}
	return k, err
}

// secret checks a secret that another key requires or does not use.
func (v *validator) secret(key, because string, s *Key, needed bool) {
	switch {
	case needed && *s == "":
		v.fault(key, *s, fmt.Sprintf("64 hexadecimal digits, or %q and a path: %s needs the secret", fileKey, because))
	case !needed && *s != "":
		v.warn(key, *s, "no value: "+because+" does not use it")
	case needed:
		loaded, err := v.loadKey(*s)
		if *s = loaded; err != nil {
			v.fault(key, *s, fmt.Sprintf("64 hexadecimal digits, or %q and the path of a file with them: %v", fileKey, err))
		}
	}
}

// upstreamCookies checks the cookies towards an upstream's servers.
func (v *validator) upstreamCookies(path string, u *Upstream) {
	because := fmt.Sprintf("cookie_mode = %q", u.CookieMode)
	v.secret(child(path, "cookie_secret"), because, &u.CookieSecret, u.CookieMode == raknet.CookiesOffloadedPSK)
	switch {
	case u.CookieMode == raknet.CookiesPrivate, u.CookieMode == raknet.CookiesNone:
		v.fault(child(path, "cookie_mode"), u.CookieMode, fmt.Sprintf("%q: the server gives its own cookies",
			raknet.CookiesActive))
	case u.CookieMode != raknet.CookiesActive && !v.known[u.Protocol].Pings:
		v.fault(child(path, "cookie_mode"), u.CookieMode, fmt.Sprintf("%q: %s has no cookies", raknet.CookiesActive,
			u.Protocol))
	}
}

// CheckSelfForwarding finds servers that are the configuration's own listeners, given the addresses of the machine.
// Datagrams would loop forever. Load already finds the cases that need no knowledge of the machine. The error is nil
// or Faults.
func (c *Config) CheckSelfForwarding(own []netip.Addr) error {
	v := validator{Config: c, report: newReport(c.places)}
	for i, u := range c.Upstreams {
		for j, server := range u.Servers {
			if !slices.Contains(own, server.Address.Addr().Unmap()) {
				continue
			}
			for k, l := range c.Listeners {
				if l.Transport == u.Transport && overlap(server.Address, l.Address) {
					v.fault(item(child(item("upstream", i), "servers"), j), server, "a game server; this address is the "+
						"machine's own, so its datagrams reach "+v.where(item("listener", k))+" of Tidegate itself")
				}
			}
		}
	}
	_, err := v.result()
	return err
}

// MayServe reports whether a discovered address can be a game server of an upstream: an address of one machine, and of
// no listener of this configuration, given the addresses of the machine.
func (c *Config) MayServe(u *Upstream, server netip.AddrPort, own []netip.Addr) bool {
	if server.Port() == 0 || !single(server.Addr()) {
		return false
	}
	at := AddressOf(server)
	return !slices.ContainsFunc(c.Listeners, func(l Listener) bool {
		return l.Transport == u.Transport &&
			(reaches(at, l.Address) || overlap(at, l.Address) && slices.Contains(own, server.Addr().Unmap()))
	})
}

// kubernetes checks the service whose endpoints are an upstream's servers.
func (v *validator) kubernetes(path string, u Upstream) {
	path, k := child(path, "kubernetes"), u.Kubernetes
	switch {
	case !k.On():
		return
	case k.Service == "":
		v.fault(child(path, "service"), nil, "the name of a service, or no [upstream.kubernetes]")
	case !isLabel(k.Service):
		v.fault(child(path, "service"), k.Service, "the name of a service: "+labelForm)
	}
	v.clusterNames(path, k.Port, k.Namespace)
}

// clusterNames checks the keys that all tables of a cluster's servers have.
func (v *validator) clusterNames(path, port, namespace string) {
	isName := isLabel(port) && strings.ContainsFunc(port, func(r rune) bool { return r >= 'a' && r <= 'z' })
	if n, err := strconv.ParseUint(port, 10, 16); port != "" && !isName && (err != nil || n == 0) {
		v.fault(child(path, "port"), port, `the name of a port, its number in quotes, or ""`)
	}
	if namespace != "" && !isLabel(namespace) {
		v.fault(child(path, "namespace"), namespace, "the name of a namespace: "+labelForm)
	}
}

// agones checks the GameServers that are an upstream's servers.
func (v *validator) agones(path string, u Upstream) {
	path, a := child(path, "agones"), u.Agones
	if !a.On() {
		if a.Port != "" || a.Capacity != "" || a.Namespace != "" || a.Kubeconfig != "" {
			v.fault(child(path, "fleet"), nil, "the name of a fleet, a selector of labels, or no [upstream.agones]")
		}
		return
	}
	if a.Fleet != "" && !isLabel(a.Fleet) {
		v.fault(child(path, "fleet"), a.Fleet, "the name of a fleet: "+labelForm)
	}
	if _, err := labels.Parse(a.Selector); err != nil {
		v.fault(child(path, "selector"), a.Selector,
			`labels as Kubernetes selects them, for example "map=dunes,mode in (duel, team)"`)
	}
	if len(a.States) == 0 {
		v.fault(child(path, "states"), a.States, "at least one state")
	}
	for i, state := range a.States {
		if slices.Contains(a.States[:i], state) {
			v.fault(item(child(path, "states"), i), state, "each state once")
		}
	}
	v.clusterNames(path, a.Port, a.Namespace)
}
