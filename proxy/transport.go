package proxy

import (
	"errors"
	"net/netip"

	"tidegate/netio"
)

// Transport is what carries the datagrams of a listener or an upstream. The zero value is UDP.
type Transport struct {
	Stream   bool         // TCP, with each datagram as a frame
	Prefix   netio.Prefix // of each frame
	MaxFrame int          // bytes of the largest frame received; 0 means netio's limit
	// Probes says that the protocol searches for the path's MTU while it connects to a server: routers must not fragment
	// its datagrams meanwhile. Where the system cannot forbid that, it goes without.
	Probes bool
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
			ReusePort: shared, Steered: steered, ReceiveBuffer: o.ReceiveBuffer,
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

// dial opens a socket towards an upstream server, from an address of ours if it is valid.
func (t Transport) dial(sockets Sockets, to netip.AddrPort, local netip.Addr) (netio.Socket, error) {
	if t.Stream {
		return sockets.DialStream(to, netio.StreamOptions{Prefix: t.Prefix, MaxFrame: t.MaxFrame})
	}
	socket, err := sockets.Dial(to, netio.SocketOptions{Local: local, DontFragment: t.Probes})
	if t.Probes && errors.Is(err, errors.ErrUnsupported) {
		return sockets.Dial(to, netio.SocketOptions{Local: local})
	}
	return socket, err
}

// probed ends the search for the path's MTU. A path that becomes narrower later then costs fragments, not the session.
func (t Transport) probed(s netio.Socket) {
	if p, ok := s.(netio.Prober); ok && t.Probes {
		_ = p.AllowFragments() // without it the path must stay as it is
	}
}
