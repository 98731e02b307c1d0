package config

import (
	"net/netip"
)

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
