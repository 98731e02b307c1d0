package config

import "net/netip"

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
	if len(addrs) > 0 || len(v.Upstreams[i].Discover) == 0 {
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
