// Package flow forwards the datagrams of relayed sessions in the kernel. A program on the interfaces rewrites addresses
// and ports in both directions and sends the packets on. They cost neither a wake-up nor a copy. The package does not
// decide about admission: user space admits a session, adds it here, and deletes it at its end.
//
// The program leaves all other datagrams to the sockets: datagrams without a flow, fragments, headers with options,
// empty datagrams, and datagrams larger than the outgoing MTU. So the session's sockets must stay open.
//
// Start with New. The path of a datagram is in entry_linux.go.
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
	Listener netip.AddrPort // our address towards the client; not a wildcard
	Source   netip.AddrPort // our address towards the server
	Server   netip.AddrPort
}

// Rate bounds a client's traffic through the kernel. The zero value bounds nothing.
type Rate struct {
	Packets     int // datagrams per second; 0: unlimited
	PacketBurst int // datagrams at once; at least 1
	Bytes       int // bytes of payload per second; 0: unlimited
	ByteBurst   int // bytes at once; more than any datagram has
	// Records carries only what looks like DTLS, both ways, and no alert: first bytes 20 to 63 without 21. ICE uses the
	// same ports, and user space must see its checks.
	Records bool
}

// Options configure a Table.
type Options struct {
	Flows int // most flows; at least 1. A flow takes about 400 bytes of kernel memory.
}

// Errors of Add. Add also returns a kernel.Unavailable, if the kernel has no route for the flow.
var (
	ErrFull   = errors.New("no room for another flow")
	ErrFamily = errors.New("IPv4 on one side and IPv6 on the other")
)

// Count counts the forwarded traffic in one direction.
type Count struct {
	Packets uint64 // datagrams; a merged packet counts as its parts
	Bytes   uint64 // bytes of payload
	Dropped uint64 // datagrams beyond the Rate
}

// Traffic counts the forwarded traffic in both directions.
type Traffic struct{ FromClient, FromServer Count }

// Usage is a flow's Traffic, and the times since the last datagram of its client and its server, or since Add.
type Usage struct {
	Traffic
	ClientIdle, ServerIdle time.Duration
}

// valid returns an error if the kernel cannot rewrite between the two sides.
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
	errAddress   = errors.New("wildcard address or unknown port")
	errLinkLocal = errors.New("link-local address")
)
