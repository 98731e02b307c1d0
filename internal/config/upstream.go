package config

import (
	"time"

	"tidegate/codec/raknet"
	"tidegate/internal/policy"
)

// Upstream is a group of equal game servers.
type Upstream struct {
	Name      string     `toml:"name"`
	Protocol  string     `toml:"protocol"`
	Transport Transport  `toml:"transport"`
	Servers   []Server   `toml:"servers"`
	Discover  []Discover `toml:"discover"` // sources of more servers
	Resolver  Address    `toml:"resolver"` // DNS server; none: the system's
	// longest time until names are looked up again
	DiscoverRefresh Duration   `toml:"discover_refresh" min:"5s" max:"10m"`
	Kubernetes      Kubernetes `toml:"kubernetes"`
	Agones          Agones     `toml:"agones"`
	Balance         Balance    `toml:"balance"`
	RetryAfter      Duration   `toml:"retry_after" min:"100ms" max:"1h"` // rest of a server that failed a session

	Library Library `toml:"server_library"`
	// empty: the system's choice
	Sources []Source `toml:"sources"`
	// per 10 ms, from each source to each server; 0: as Library says
	MaxPackets int `toml:"max_packets" min:"0" max:"10000"`

	Health         Health   `toml:"health"`
	HealthInterval Duration `toml:"health_interval" min:"100ms" max:"1h"`

	ProxyProtocol ProxyProtocol `toml:"proxy_protocol"`
	// sessions at different servers share sockets
	ShareSockets bool `toml:"share_sockets"`

	NAT bool `toml:"nat"` // the servers are behind NAT or in containers: NetherNet's addresses are not theirs

	// file of the key that signs the joins at NetherNet servers, on routes that terminate
	IdentityKey string `toml:"identity_key"`

	CookieMode   CookieMode `toml:"cookie_mode"`   // of the servers
	CookieSecret Key        `toml:"cookie_secret"` // of the servers, for their cookies

	Own Options `toml:"*"` // tables of protocols in place of the process's
}

func (u *Upstream) setDefaults() {
	*u = Upstream{
		Transport: UDP, Discover: []Discover{}, DiscoverRefresh: seconds(600), Agones: defaultAgones(),
		Balance: WordOf(policy.LeastSessions), RetryAfter: Duration(5 * time.Second),
		Library: AnyLibrary, Sources: []Source{},
		Health: HealthAuto, HealthInterval: seconds(2),
		ProxyProtocol: WordOf(policy.HeadersOff), CookieMode: raknet.CookiesActive,
	}
}

// Balance is the strategy that chooses a server for the next session.
type Balance = Word[policy.Balance]

// Health is the method that checks whether an upstream's servers are up.
type Health string

// Methods.
const (
	HealthAuto    Health = "auto"    // ping if the protocol has one, else off
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
