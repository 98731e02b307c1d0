package proxy

import (
	"net/netip"
	"slices"

	"tidegate/internal/netio"
	"tidegate/proxy/relay"
)

// reserve makes room for the descriptors of all sessions and listeners in advance, since a loop should not wait for
// that.
func (s *Server) reserve(settings *relay.Settings) {
	netio.Reserve(s.options.Loops * (settings.Limits.Sessions + len(settings.Listeners)))
}

// open opens the socket of a listener for one loop. The first loop chooses the address, and the others open the same
// one.
func (s *Server) open(loop int, poller netio.Poller, l *relay.Listener, addr netip.AddrPort,
	settings *relay.Settings) (netio.Socket, error) {
	socket, err := s.adopt(loop, poller, l, addr, settings)
	if socket != nil || err != nil {
		return socket, err
	}
	o := &s.options
	shared := o.Loops > 1
	switch {
	case addr.IsValid():
	case shared:
		addr, err = claim(poller, l, settings, o)
	default:
		addr = l.Addr
	}
	if err != nil {
		return nil, err
	}
	return listenAt(poller, l, addr, shared, settings, o)
}

// adopt opens a listener of a loop on an inherited socket, or returns nil if there is none left for it. addr is the
// listener's address as another loop has opened it. It is the zero AddrPort for the first loop.
func (s *Server) adopt(loop int, poller netio.Poller, l *relay.Listener, addr netip.AddrPort,
	settings *relay.Settings) (netio.Socket, error) {
	i := slices.IndexFunc(s.inherited, func(from inherited) bool {
		fits := from.loop < 0 && isAt(from.addr, l.Addr) || from.loop == loop && from.addr == l.Addr
		return fits && from.stream == l.Transport.Stream && (!addr.IsValid() || from.addr == addr)
	})
	if i < 0 {
		return nil, nil
	}
	sockets, ok := poller.(netio.Handover)
	if !ok {
		return nil, ErrNoHandover
	}
	from := &s.inherited[i]
	from.loop = loop
	if from.stream {
		return sockets.AdoptStream(from.fd, streamOptions(l, false, settings))
	}
	return sockets.Adopt(from.fd, netio.SocketOptions{ReceiveBuffer: s.options.ReceiveBuffer})
}

// listenAt opens a listener's socket in one loop. s are the settings of the loop's Relay.
func listenAt(poller netio.Poller, l *relay.Listener, addr netip.AddrPort, shared bool, s *relay.Settings,
	o *Options) (netio.Socket, error) {
	if !l.Transport.Stream {
		return poller.Listen(addr, netio.SocketOptions{ReusePort: shared, ReceiveBuffer: o.ReceiveBuffer})
	}
	return poller.ListenStream(addr, streamOptions(l, shared, s))
}

// claim makes sure that no other process has the address of a listener, before the loops share it. A process that
// shared the address too would get half of the clients. It returns the address with its port.
func claim(poller netio.Poller, l *relay.Listener, s *relay.Settings, o *Options) (netip.AddrPort, error) {
	socket, err := listenAt(poller, l, l.Addr, false, s, o)
	if err != nil {
		return l.Addr, err
	}
	defer socket.Close()
	return socket.Addr(), nil
}

// streamOptions returns the options of a TCP listener.
func streamOptions(l *relay.Listener, shared bool, s *relay.Settings) netio.StreamOptions {
	return netio.StreamOptions{
		Prefix: l.Transport.Prefix, MaxFrame: l.Transport.MaxFrame, ReusePort: shared,
		HelloTimeout: s.HandshakeTimeout,
		// More than Sessions, so that the protocol can refuse some clients.
		MaxConns: s.Limits.Sessions + s.Limits.HalfOpen,
		Hellos: netio.HelloLimits{
			Address: s.Limits.HalfOpenAddress, Network: s.Limits.HalfOpenNetwork, Overall: s.Limits.HalfOpen,
		},
	}
}
