// Package flow forwards the datagrams of relayed sessions in the kernel: a program on the interfaces rewrites addresses
// and ports, in both directions, and sends them on, so that they cost neither a wake-up nor a copy. It says
// nothing about who may have a session: whoever admitted one in user space adds it here, and deletes it when it ends.
//
// What the program does not forward goes on to the sockets as ever: datagrams of no flow, fragments, headers with options,
// datagrams larger than the way out takes, empty ones. So the session's sockets must stay open.
//
// Start with New. program_linux.go is the path of a datagram.
package flow

import (
	"errors"
	"net/netip"
	"time"
)

// Flow is a session: four addresses of one family.
//
//	Client ─► Listener   Source ─► Server
//	Client ◄─ Listener   Source ◄─ Server
type Flow struct {
	Client   netip.AddrPort
	Listener netip.AddrPort // ours, that the client sends to; a wildcard will not do
	Source   netip.AddrPort // ours, that the server hears the client from
	Server   netip.AddrPort
}

// Rate bounds what a client may send through the kernel. The zero value bounds nothing.
type Rate struct {
	Packets     int // datagrams a second; 0: any number
	PacketBurst int // datagrams at once; at least 1
	Bytes       int // bytes of payload a second; 0: any number
	ByteBurst   int // bytes at once; more than a datagram has
}

// Options are those of a Table.
type Options struct {
	Flows int // at most; at least 1. One takes about 400 bytes of the kernel's
}

// Errors of Add beside a kernel.Unavailable, which tells that this flow has no way through the kernel.
var (
	ErrFull   = errors.New("no room for another flow")
	ErrFamily = errors.New("IPv4 on one side and IPv6 on the other")
)

// Count is what was forwarded one way.
type Count struct {
	Packets uint64 // datagrams; what was merged counts as its parts
	Bytes   uint64 // of their payloads
	Dropped uint64 // datagrams beyond the Rate
}

// Traffic is what was forwarded both ways.
type Traffic struct{ FromClient, FromServer Count }

// Usage is a flow's Traffic and how long ago its client and its server were last heard, or it was added.
type Usage struct {
	Traffic
	ClientIdle, ServerIdle time.Duration
}

// valid reports whether the kernel could rewrite from one side to the other.
func (f *Flow) valid() error {
	family := f.Client.Addr().Is4()
	for _, a := range []netip.AddrPort{f.Client, f.Listener, f.Source, f.Server} {
		switch {
		case !a.IsValid() || a.Addr().IsUnspecified() || a.Port() == 0:
			return errAddress
		case a.Addr().Is4() != family:
			return ErrFamily
		case a.Addr().Is6() && a.Addr().IsLinkLocalUnicast():
			return errLinkLocal
		}
	}
	return nil
}

var (
	errAddress   = errors.New("an address or port of it is not known, as of a socket at all addresses")
	errLinkLocal = errors.New("an address that counts on one link only")
)
