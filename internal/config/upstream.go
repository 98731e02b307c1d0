package config

import (
	"net/netip"

	"tidegate/codec/raknet"
	"tidegate/internal/policy"
)

// Upstream is a group of equal game servers.
type Upstream struct {
	Name       string     `toml:"name"`
	Protocol   string     `toml:"protocol"`
	Transport  Transport  `toml:"transport" default:"udp"`
	Servers    []Server   `toml:"servers"`
	Discover   []Discover `toml:"discover"` // sources of more servers
	Resolver   Address    `toml:"resolver"` // DNS server; none: the system's
	Kubernetes Kubernetes `toml:"kubernetes"`
	Agones     Agones     `toml:"agones"`
	Balance    Balance    `toml:"balance" default:"least_sessions"`

	Library Library `toml:"server_library" default:"any"`
	// empty: the system's choice
	Sources []Source `toml:"sources"`
	// per 10 ms, from each source to each server; 0: as Library says
	MaxPackets int `toml:"max_packets" min:"0" max:"10000"`

	Health         Health   `toml:"health" default:"auto"`
	HealthInterval Duration `toml:"health_interval" default:"2s" min:"100ms" max:"1h"`

	ProxyProtocol ProxyProtocol `toml:"proxy_protocol" default:"off"`

	NAT bool `toml:"nat"` // the servers are behind NAT or in containers: NetherNet's addresses are not theirs

	// file of the key that signs the joins at NetherNet servers, on routes that terminate
	IdentityKey string `toml:"identity_key"`

	CookieMode   CookieMode `toml:"cookie_mode" default:"active"` // of the servers
	CookieSecret Key        `toml:"cookie_secret"`                // of the servers, for their cookies

	Own Options `toml:"*"` // tables of protocols in place of the process's
}

// Balance is the strategy that chooses a server for the next session.
type Balance = Word[policy.Balance]

// Health is the method that checks whether an upstream's servers are up.
type Health string

// Methods.
const (
	HealthAuto    Health = "auto"    // http if clients join so, ping if the protocol has one, else off
	HealthOff     Health = "off"     // no checks: only sessions show failures
	HealthPing    Health = "ping"    // the ping of server lists
	HealthHTTP    Health = "http"    // the GET of NetherNet's server lists
	HealthConnect Health = "connect" // joins, and leaves at once
)

// Choices lists the words of the configuration.
func (Health) Choices() []string {
	return choices(HealthAuto, HealthOff, HealthPing, HealthHTTP, HealthConnect)
}

// CookieMode says which side makes the RakNet cookies that prove addresses, and which side checks them.
type CookieMode = raknet.CookieMode

// fileKey begins the path of a file with a key.
const fileKey = "file:"

// Server is a game server. In the file it is an address, or a table with an address and more.
type Server struct {
	Address     Address `toml:"address"`
	Weight      int     `toml:"weight" default:"1"` // share of the players, compared with other servers
	MaxSessions int     `toml:"max_sessions"`       // 0: no bound
}

// ServerAt returns a server with an address and defaults.
func ServerAt(addr netip.AddrPort) Server { return Server{Address: AddressOf(addr), Weight: 1} }

// UnmarshalText reads a server that is written as an address.
func (s *Server) UnmarshalText(text []byte) error { return s.Address.UnmarshalText(text) }

// String returns the server's address.
func (s Server) String() string { return s.Address.String() }

const (
	maxWeight   = 1000
	maxSessions = 1_000_000
)
