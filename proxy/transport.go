package proxy

import (
	"net/netip"

	"tidegate/netio"
)

// Transport is what carries the datagrams of a listener or an upstream. The zero value is UDP.
type Transport struct {
	Stream   bool         // TCP, with each datagram as a frame
	Prefix   netio.Prefix // of each frame
	MaxFrame int          // bytes of the largest frame received; 0 means netio's limit
}

// listen opens the socket of a listener, of a loop that has a Relay of these settings.
func (t Transport) listen(poller netio.Poller, addr netip.AddrPort, s *Settings, o *Options) (netio.Socket, error) {
	shared := o.Loops > 1
	if !t.Stream {
		return poller.Listen(addr, netio.SocketOptions{ReusePort: shared, ReceiveBuffer: o.ReceiveBuffer})
	}
	return poller.ListenStream(addr, netio.StreamOptions{
		Prefix: t.Prefix, MaxFrame: t.MaxFrame, ReusePort: shared,
		HelloTimeout: s.HandshakeTimeout,
		MaxConns:     s.Limits.Sessions + s.Limits.HalfOpen, // more than sessions, so that some can be refused in words
	})
}

// dial opens a socket towards an upstream server.
func (t Transport) dial(sockets Sockets, to netip.AddrPort) (netio.Socket, error) {
	if !t.Stream {
		return sockets.Dial(to, netio.SocketOptions{})
	}
	return sockets.DialStream(to, netio.StreamOptions{Prefix: t.Prefix, MaxFrame: t.MaxFrame})
}
