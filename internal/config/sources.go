package config

import (
	"net/netip"
	"reflect"
)

// SourcePrefix is a Prefix, or empty.
type SourcePrefix string

var sourcePrefixType = reflect.TypeFor[SourcePrefix]()

// UnmarshalText reads what Prefix does, or nothing.
func (p *SourcePrefix) UnmarshalText(text []byte) error {
	*p = SourcePrefix(text)
	if len(text) == 0 {
		return nil
	}
	return new(Prefix).UnmarshalText(text)
}

// Prefix is the network; the zero one for none.
func (p SourcePrefix) Prefix() netip.Prefix {
	if p == "" {
		return netip.Prefix{}
	}
	return Prefix(p).Prefix()
}

// receiveBuffer checks how much the kernel keeps of what an upstream's servers send.
func (v *validator) receiveBuffer(path string, u Upstream) {
	key := child(path, "receive_buffer")
	within(v.report, key, u.ReceiveBuffer, 64*KiB, GiB)
	if u.Transport == TCP && v.source.has(key) {
		v.warn(key, u.ReceiveBuffer, "no such key here: the kernel sizes the buffers of TCP by itself")
	}
}

// sources checks how an upstream's sessions share sockets.
func (v *validator) sources(i int) {
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
		v.fault(key, u.SourcePrefix, `"", or no sources: a session comes from one of them or has an address of its own`)
		return
	case u.ShareSockets:
		v.warn(child(item("upstream", i), "share_sockets"), true, "false: with source_prefix all sessions share one socket anyway")
	}
	for _, server := range u.Servers {
		if server.Address.IsValid() && server.Address.Addr().Unmap().Is4() != prefix.Addr().Is4() {
			v.fault(key, u.SourcePrefix, "a prefix of the servers' own family, or an upstream for each family: "+
				server.String()+" is of the other")
			return
		}
	}
	if bits := prefix.Addr().BitLen() - prefix.Bits(); bits < 31 && (1<<bits)*len(u.Servers) < v.Limits.Sessions {
		v.warn(key, u.SourcePrefix, "a shorter prefix: each session at a server needs an address of it, and "+
			"limits.sessions allows more")
	}
}
