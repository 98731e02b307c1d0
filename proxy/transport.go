package proxy

import (
	"errors"
	"hash/fnv"
	"net/netip"

	"tidegate/internal/netio"
)

// Transport is what carries the datagrams of a listener or an upstream. The zero value is UDP.
type Transport struct {
	Stream   bool         // TCP, with each datagram as a frame
	Prefix   netio.Prefix // of each frame
	MaxFrame int          // bytes of the largest frame received; 0 means netio's limit
	// Probes says that the protocol searches for the path's MTU while it connects to a server: routers must not fragment
	// its datagrams meanwhile. Where the system cannot forbid that, it goes without.
	Probes bool
	// Sources, if valid, is the prefix that sessions come from at a server, with an address each. Pooled has sessions at
	// different servers share sockets.
	Sources netip.Prefix
	Pooled  bool
	// ReceiveBuffer is the kernel's, of each socket towards a server, in bytes; 0 means netio's default.
	ReceiveBuffer int
	// Transparent has sessions come from the clients' own addresses. Linux, and the answers must be routed here.
	Transparent bool
}

// listen opens the socket of a listener, of a loop that has a Relay of these settings.
func (t Transport) listen(poller netio.Poller, addr netip.AddrPort, shared bool, s *Settings, o *Options) (netio.Socket,
	error) {
	if !t.Stream {
		steered := 0
		if shared {
			steered = o.Loops
		}
		return poller.Listen(addr, netio.SocketOptions{
			ReusePort: shared, SteerAmong: steered, ReceiveBuffer: o.ReceiveBuffer,
		})
	}
	return poller.ListenStream(addr, t.streamOptions(shared, s))
}

// streamOptions are those of a listener for streams.
func (t Transport) streamOptions(shared bool, s *Settings) netio.StreamOptions {
	return netio.StreamOptions{
		Prefix: t.Prefix, MaxFrame: t.MaxFrame, ReusePort: shared,
		HelloTimeout: s.HandshakeTimeout,
		MaxConns:     s.Limits.Sessions + s.Limits.HalfOpen, // more than sessions, so that some can be refused in words
	}
}

// claim makes sure that nobody else has the address of a listener, before the loops share it: another process that
// shares it too would get half of the players. It returns the address with its port.
func (t Transport) claim(poller netio.Poller, addr netip.AddrPort, s *Settings, o *Options) (netip.AddrPort, error) {
	socket, err := t.listen(poller, addr, false, s, o)
	if err != nil {
		return addr, err
	}
	defer socket.Close()
	return socket.Addr(), nil
}

// dial opens a socket towards an upstream server on behalf of a client, from an address of ours if local is valid.
func (t Transport) dial(sockets Sockets, to netip.AddrPort, local netip.Addr, client netip.AddrPort) (netio.Socket, error) {
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

// sourceKey is what a client's address is chosen by among an upstream's Sources. It is the same in every run, so that
// a game server's bans by address outlive ours.
func sourceKey(client netip.Addr) uint64 {
	h := fnv.New64a()
	ip := client.As16()
	_, _ = h.Write(ip[:]) // never fails
	return h.Sum64()
}

// probed ends the search for the path's MTU. A path that becomes narrower later then costs fragments, not the session.
func (t Transport) probed(s netio.Socket) {
	if p, ok := s.(netio.FragmentControl); ok && t.Probes {
		_ = p.AllowFragments() // without it the path must stay as it is
	}
}
