package netio

import "net/netip"

// endpoint is the part of a Socket that is the same in all backends.
type endpoint struct {
	addr   netip.AddrPort
	peer   netip.AddrPort // zero of a socket that listens
	owner  any
	closed bool
	failed bool // a failure is queued for the Handler
	ending bool // of a stream: its end was told, or is about to be, to Handler.Failed
}

func (e *endpoint) Addr() netip.AddrPort { return e.addr }
func (e *endpoint) Peer() netip.AddrPort { return e.peer }
func (e *endpoint) Owner() any           { return e.owner }
func (e *endpoint) SetOwner(owner any)   { e.owner = owner }

func (e *endpoint) dialed() bool { return e.peer.IsValid() }

// unmap makes an IPv4-mapped IPv6 address plain IPv4, so that a client has one address whatever socket it came to.
func unmap(a netip.AddrPort) netip.AddrPort { return netip.AddrPortFrom(a.Addr().Unmap(), a.Port()) }
