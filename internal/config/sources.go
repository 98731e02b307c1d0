package config

import (
	"net/netip"
	"reflect"
	"slices"
	"strings"
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
	case u.Transport == TCP, u.SeparatesPlayers():
		return 0
	case u.Library == CloudburstLibrary, u.Library == AnyLibrary && u.Protocol == "bedrock":
		return 40
	case u.Library == RakLibLibrary:
		return 65
	}
	return 0
}

// Source says from where sessions are sent to servers, as the user wrote it: an address of this machine, a prefix of
// which each session has an address of its own, or a word.
type Source string

// Words of sources.
const (
	Players Source = "players" // the players' own addresses
	Shared  Source = "shared"  // sessions at different servers share sockets
)

var sourceType = reflect.TypeFor[Source]()

// UnmarshalText reads an address, a prefix or a word.
func (s *Source) UnmarshalText(text []byte) error {
	if !Source(text).isWord() {
		if err := new(Prefix).UnmarshalText(text); err != nil {
			return err
		}
	}
	*s = Source(text)
	return nil
}

func (s Source) isWord() bool { return s == Players || s == Shared }

func (s Source) isPrefix() bool { return strings.Contains(string(s), "/") }

// addr returns the address; the zero Addr, if it is none.
func (s Source) addr() netip.Addr {
	if s.isWord() || s.isPrefix() {
		return netip.Addr{}
	}
	return Prefix(s).Prefix().Addr()
}

// Transparent reports whether sessions use the players' own addresses.
func (u *Upstream) Transparent() bool { return slices.Contains(u.Sources, Players) }

// SharesSockets reports whether sessions at different servers share sockets without addresses of their own.
func (u *Upstream) SharesSockets() bool { return slices.Contains(u.Sources, Shared) }

// SourcePrefix returns the network of which each session has its own address. The zero Prefix means that there is none.
func (u *Upstream) SourcePrefix() netip.Prefix {
	if i := slices.IndexFunc(u.Sources, Source.isPrefix); i >= 0 {
		return Prefix(u.Sources[i]).Prefix()
	}
	return netip.Prefix{}
}

// SourceAddresses returns the addresses of this machine that sessions are spread over.
func (u *Upstream) SourceAddresses() (all []netip.Addr) {
	for _, s := range u.Sources {
		if addr := s.addr(); addr.IsValid() {
			all = append(all, addr)
		}
	}
	return all
}

// SeparatesPlayers reports whether servers see an address for each player.
func (u *Upstream) SeparatesPlayers() bool { return u.Transparent() || u.SourcePrefix().IsValid() }
