package config

import (
	"fmt"
	"net/netip"
	"slices"
)

// Server is a game server. In the file it is an address, or a table with an address and more.
type Server struct {
	Address     Address `toml:"address"`
	Weight      int     `toml:"weight"`       // share of the players, compared with other servers
	MaxSessions int     `toml:"max_sessions"` // 0: no bound
}

// ServerAt returns a server with an address and defaults.
func ServerAt(addr netip.AddrPort) Server { return Server{Address: AddressOf(addr), Weight: 1} }

func (s *Server) setDefaults() { *s = Server{Weight: 1} }

// UnmarshalText reads a server that is written as an address.
func (s *Server) UnmarshalText(text []byte) error { return s.Address.UnmarshalText(text) }

// String returns the server's address.
func (s Server) String() string { return s.Address.String() }

const (
	maxWeight   = 1000
	maxSessions = 1_000_000
)

// servers checks the servers of an upstream.
func (v *validator) servers(i int) {
	key := child(item("upstream", i), "servers")
	servers := v.Upstreams[i].Servers
	var addrs []Address
	for _, server := range servers {
		addrs = append(addrs, server.Address)
	}
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
