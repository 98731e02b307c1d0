package config

import (
	"net/netip"
	"reflect"
)

// IP is an IP address as the user wrote it.
type IP string

var ipType = reflect.TypeFor[IP]()

// UnmarshalText reads an address without a zone.
func (a *IP) UnmarshalText(text []byte) error {
	parsed, err := netip.ParseAddr(string(text))
	if err != nil || parsed.Zone() != "" {
		return errUnit
	}
	*a = IP(text)
	return nil
}

// Addr returns the address. IPv4 within IPv6 becomes IPv4.
func (a IP) Addr() netip.Addr {
	parsed, _ := netip.ParseAddr(string(a)) // UnmarshalText has checked it
	return parsed.Unmap()
}

// Library is the RakNet library of an upstream's servers. Some block an address that sends many datagrams.
type Library string

// Libraries.
const (
	AnyLibrary        Library = "any"        // not known: the strictest bound of the servers of its protocol
	CloudburstLibrary Library = "cloudburst" // Nukkit, Geyser, WaterdogPE
	RakLibLibrary     Library = "raklib"     // PocketMine
	GoRakNetLibrary   Library = "go-raknet"  // Dragonfly
	StockLibrary      Library = "stock"      // C++ RakNet, Minecraft's own server
)

// Choices lists the words of the configuration.
func (Library) Choices() []string {
	return choices(AnyLibrary, CloudburstLibrary, RakLibLibrary, GoRakNetLibrary, StockLibrary)
}

// blocks reports whether the library is known to block the address of a client for one broken datagram.
func (l Library) blocks() bool {
	return l == CloudburstLibrary || l == RakLibLibrary || l == GoRakNetLibrary
}

// Packets returns the largest number of datagrams in 10 ms from one address to one server; 0 means unbounded.
// Cloudburst blocks an address beyond 120 in 10 ms, and RakLib beyond 200. A server that is late reads the datagrams of
// several spans at once, so the bounds are a third: with half, a real Cloudburst server blocked us. Sessions with
// addresses of their own need none.
func (u *Upstream) Packets() int {
	switch {
	case u.MaxPackets > 0:
		return u.MaxPackets
	case u.Transport == TCP, u.Transparent, u.SourcePrefix != "":
		return 0
	case u.Library == CloudburstLibrary, u.Library == AnyLibrary && u.Protocol == "bedrock":
		return 40
	case u.Library == RakLibLibrary:
		return 65
	}
	return 0
}

// SourcePrefix is a Prefix, or empty.
type SourcePrefix string

var sourcePrefixType = reflect.TypeFor[SourcePrefix]()

// UnmarshalText reads a prefix or an empty text.
func (p *SourcePrefix) UnmarshalText(text []byte) error {
	*p = SourcePrefix(text)
	if len(text) == 0 {
		return nil
	}
	return new(Prefix).UnmarshalText(text)
}

// Prefix returns the network. It is the zero Prefix if there is none.
func (p SourcePrefix) Prefix() netip.Prefix {
	if p == "" {
		return netip.Prefix{}
	}
	return Prefix(p).Prefix()
}
