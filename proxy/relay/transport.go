package relay

import (
	"errors"
	"hash/fnv"
	"net/netip"

	"tidegate/internal/netio"
)

// Sockets are the functions that a Relay needs from its loop. netio.Poller implements them.
type Sockets interface {
	Dial(to netip.AddrPort, o netio.SocketOptions) (netio.Socket, error)
	DialStream(to netip.AddrPort, o netio.StreamOptions) (netio.Socket, error)
	Buffer() []byte
	Send(s netio.Socket, to netip.AddrPort, datagram []byte)
	Forward(s netio.Socket, to netip.AddrPort, datagram []byte)
}

// Transport is the way in which datagrams of a listener or an upstream travel. The zero value is UDP.
type Transport struct {
	Stream   bool         // TCP, with each datagram as a frame
	Prefix   netio.Prefix // of each frame
	MaxFrame int          // bytes of the largest frame received; 0 means netio's limit
	// Probes says that the protocol searches for the path's MTU while it connects to a server. Routers must not fragment
	// its datagrams meanwhile. Where the system cannot forbid fragments, the search goes on without that.
	Probes bool
	// Sources, if valid, is the prefix from which each session gets its own address at a server. With Pooled, sessions
	// at different servers share sockets.
	Sources netip.Prefix
	Pooled  bool
	// ReceiveBuffer is the size in bytes of the kernel's receive buffer of each socket to a server. 0 means netio's
	// default.
	ReceiveBuffer int
	// Transparent makes sessions come from the clients' own addresses. It needs Linux, and the answers must be routed to
	// this machine.
	Transparent bool
}

// dial opens a socket to an upstream server for a client. A valid local is the source address.
func (t Transport) dial(sockets Sockets, to netip.AddrPort, local netip.Addr, client netip.AddrPort) (netio.Socket,
	error) {
	if t.Stream {
		return sockets.DialStream(to, netio.StreamOptions{Prefix: t.Prefix, MaxFrame: t.MaxFrame})
	}
	o := netio.SocketOptions{
		Local: local, Sources: t.Sources, SourceKey: sourceKey(client.Addr()), Shared: t.Pooled, DontFragment: t.Probes,
		ReceiveBuffer: t.ReceiveBuffer,
	}
	if t.Transparent {
		o.TransparentSource = client
	}
	socket, err := sockets.Dial(to, o)
	if t.Probes && errors.Is(err, errors.ErrUnsupported) {
		o.DontFragment = false
		return sockets.Dial(to, o)
	}
	return socket, err
}

// sourceKey returns the number that chooses a client's address out of an upstream's Sources. It is the same in every
// run. So a game server's bans by address stay right after a restart.
func sourceKey(client netip.Addr) uint64 {
	h := fnv.New64a()
	ip := client.As16()
	_, _ = h.Write(ip[:]) // never fails
	return h.Sum64()
}

// probed ends the search for the path's MTU. If the path becomes narrower later, that costs fragments and not the
// session.
func (t Transport) probed(s netio.Socket) {
	if p, ok := s.(netio.FragmentControl); ok && t.Probes {
		_ = p.AllowFragments() // without this feature the path must keep its MTU
	}
}
