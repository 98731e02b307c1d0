package config

import (
	"net/netip"
	"reflect"
)

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
	within(v.report, key, u.ReceiveBuffer, 64*KiB, GiB)
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
		v.fault(key, u.SourcePrefix, `"", or no sources: a session uses either one of the sources or its own address of the prefix`)
		return
	case u.ShareSockets:
		v.warn(child(item("upstream", i), "share_sockets"), true, "false: with source_prefix all sessions share one socket anyway")
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
