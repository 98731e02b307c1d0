package config

import (
	"fmt"
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

// Packets returns the largest number of datagrams in MaxPacketsPer from one address to one server; 0 means unbounded.
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

// sourcesAndRate checks the local addresses and the datagram rate towards an upstream's servers.
func (v *validator) sourcesAndRate(path string, u Upstream) {
	switch t := v.known[u.Protocol]; {
	case u.Library != AnyLibrary && u.Protocol != "raknet" && u.Protocol != "bedrock" && !t.Opaque:
		v.fault(child(path, "server_library"), u.Library, `"any": only servers of raknet and bedrock differ`)
	}
	if u.Transport == TCP && u.MaxPackets > 0 {
		v.fault(child(path, "max_packets"), u.MaxPackets, "0: TCP controls its own rate")
	}
	sources := child(path, "sources")
	if u.Transport == TCP && len(u.Sources) > 0 {
		v.fault(sources, u.Sources, "[]: source addresses work only with UDP")
	}
	for j, source := range u.Sources {
		if addr := source.Addr(); addr.IsValid() && !single(addr) {
			v.fault(item(sources, j), source, "an address of this machine")
		}
	}
	if len(u.Sources) == 0 {
		return
	}
	unique(v.report, sources, u.Sources, "")
	for j, server := range u.Servers {
		if addr := server.Address.Addr(); addr.IsValid() && !v.reachable(addr, u.Sources) {
			v.fault(sources, u.Sources, fmt.Sprintf("also an address of the same family as %s",
				v.where(item(child(path, "servers"), j))))
		}
	}
}

// reachable reports whether some source has the address family of the server.
func (v *validator) reachable(server netip.Addr, sources []IP) bool {
	for _, source := range sources {
		if source.Addr().Is4() == server.Unmap().Is4() {
			return true
		}
	}
	return false
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

// receiveBuffer checks the kernel's receive buffer of sockets to an upstream's servers.
func (v *validator) receiveBuffer(path string, u Upstream) {
	key := child(path, "receive_buffer")
	if u.Transport == TCP && v.source.has(key) {
		v.warn(key, u.ReceiveBuffer, "no value here: the kernel sizes TCP buffers itself")
	}
}

// sourcePrefix checks that each session can have its own address.
func (v *validator) sourcePrefix(i int) {
	u := v.Upstreams[i]
	if u.SourcePrefix == "" {
		return
	}
	key := child(item("upstream", i), "source_prefix")
	prefix := u.SourcePrefix.Prefix()
	switch {
	case u.Transport == TCP:
		v.fault(key, u.SourcePrefix, `"", or transport = "udp": a TCP connection has an address and port of its own`)
		return
	case v.Loop.Backend == BackendPortable:
		v.fault(key, u.SourcePrefix, `"", or loop.backend = "auto": portable sockets cannot choose their address`)
		return
	case len(u.Sources) > 0:
		v.fault(key, u.SourcePrefix, `"", or no sources: a session uses either one of the sources or its own address `+
			`of the prefix`)
		return
	case u.ShareSockets:
		v.warn(child(item("upstream", i), "share_sockets"), true,
			"false: with source_prefix all sessions share one socket anyway")
	}
	for _, server := range u.Servers {
		if server.Address.IsValid() && server.Address.Addr().Unmap().Is4() != prefix.Addr().Is4() {
			v.fault(key, u.SourcePrefix, "a prefix of the servers' address family, or one upstream for each family: "+
				server.String()+" has the other family")
			return
		}
	}
	if bits := prefix.Addr().BitLen() - prefix.Bits(); bits < 31 && (1<<bits)*len(u.Servers) < v.Limits.Sessions {
		v.warn(key, u.SourcePrefix, "a shorter prefix: each session at a server needs its own address, and "+
			"limits.sessions allows more sessions than that")
	}
}

// transparent checks that an upstream's sessions can use the players' own addresses.
func (v *validator) transparent(path string, u Upstream) {
	key := child(path, "transparent")
	switch {
	case !u.Transparent:
	case u.Transport == TCP:
		v.fault(key, true, `false, or transport = "udp"`)
	case v.Loop.Backend == BackendPortable:
		v.fault(key, true, `false, or loop.backend = "auto": portable sockets cannot choose their address`)
	case u.SourcePrefix != "" || len(u.Sources) > 0 || u.ShareSockets:
		v.fault(key, true, "false, or neither source_prefix, sources nor share_sockets: they choose other addresses")
	}
}
