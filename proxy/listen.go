package proxy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"tidegate/internal/netio"
	"tidegate/internal/pause"
	"tidegate/proxy/relay"
	"tidegate/proxy/stats"
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
		isAt := from.addr == l.Addr || from.loop < 0 && l.Addr.Port() == 0 && from.addr.Addr() == l.Addr.Addr()
		fits := isAt && (from.loop < 0 || from.loop == loop)
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

// Errors of Server.Reload.
var (
	ErrFraming = errors.New("its frames cannot change without a restart") // about a TCP listener
)

// Reload replaces the settings, which must not change afterwards. It is atomic: if a listener cannot be opened, the
// old settings stay.
//
// No session ends. Each session keeps its route. Limits and rules about new clients apply at once. A listener with
// the same address and transport keeps its socket, even under another name. A removed listener takes no new clients,
// and closes with its last session. Until then a further Reload can put it back. Servers, routes and Riptide's client
// IDs are matched by name.
func (s *Server) Reload(settings *relay.Settings) error {
	s.reloading.Lock()
	defer s.reloading.Unlock()
	err := s.checkFraming(settings)
	if err != nil {
		return err
	}
	s.reserve(settings)
	addrs := make([]netip.AddrPort, len(settings.Listeners))
	sockets := make([][]netio.Socket, len(s.loops)) // by loop and listener; nil where the loop has one
	for i := range s.loops {
		if sockets[i], err = s.openFresh(i, settings, addrs); err != nil {
			s.discard(sockets)
			return err
		}
	}
	for i, l := range s.loops {
		if !l.ask(stats.WorkReload, func(r *relay.Relay, now time.Time) { r.Reload(now, settings, sockets[i]) }) {
			return relay.ErrEnded
		}
	}
	s.spare(settings, addrs)
	s.keep(settings, addrs)
	s.reloadKernel()
	return nil
}

// checkFraming refuses settings that change how a TCP listener cuts its stream into datagrams.
func (s *Server) checkFraming(settings *relay.Settings) error {
	for i := range settings.Listeners {
		l := &settings.Listeners[i]
		for j := range s.settings.Listeners {
			old := &s.settings.Listeners[j]
			streams := l.Transport.Stream && old.Transport.Stream
			if l.Addr == old.Addr && streams && l.Transport != old.Transport {
				return fmt.Errorf("listener %s: %w", l.Name, ErrFraming)
			}
		}
	}
	return nil
}

// turnListeners is the number of listeners that one turn of a loop opens, filters or closes. Each takes some system
// calls.
const turnListeners = 8

// openFresh opens, in one loop, the sockets of listeners that it does not have, and notes the addresses of all
// listeners. Only Reload and closeDeserted close listeners, and both hold reloading. So a retired listener that
// openFresh finds stays.
func (s *Server) openFresh(loop int, settings *relay.Settings,
	addrs []netip.AddrPort) (sockets []netio.Socket, err error) {
	l := s.loops[loop]
	var fresh []int
	if !l.ask(stats.WorkListeners, func(r *relay.Relay, _ time.Time) {
		fresh = r.Fresh(settings, addrs)
	}) {
		return nil, relay.ErrEnded
	}
	sockets = make([]netio.Socket, len(addrs))
	for some := range slices.Chunk(fresh, turnListeners) {
		asked := l.ask(stats.WorkListeners, func(*relay.Relay, time.Time) {
			for _, i := range some {
				to := &settings.Listeners[i]
				if sockets[i], err = s.open(loop, l.poller, to, addrs[i], settings); err != nil {
					err = fmt.Errorf("listener %s: %w", to.Name, err)
					return
				}
				addrs[i] = sockets[i].Addr()
			}
		})
		switch {
		case !asked:
			return sockets, relay.ErrEnded
		case err != nil:
			return sockets, err
		}
	}
	return sockets, nil
}

// discard closes sockets that are not needed.
func (s *Server) discard(sockets [][]netio.Socket) {
	for i, l := range s.loops {
		opened := slices.DeleteFunc(sockets[i], func(socket netio.Socket) bool { return socket == nil })
		for some := range slices.Chunk(opened, turnListeners) {
			l.ask(stats.WorkListeners, func(*relay.Relay, time.Time) {
				for _, socket := range some {
					socket.Close()
				}
			})
		}
	}
}

// sweep closes removed listeners once they have no session, until ctx is done.
func (s *Server) sweep(ctx context.Context) {
	for range pause.On(ctx, s.deserted) {
		s.closeDeserted()
	}
}

// tellDeserted wakes sweep. It never blocks, since loops call it.
func (s *Server) tellDeserted() {
	select {
	case s.deserted <- struct{}{}:
	default: // sweep is awake already
	}
}

// closeDeserted closes the retired listeners that have no session in any loop.
func (s *Server) closeDeserted() {
	s.reloading.Lock()
	defer s.reloading.Unlock()
	var empty map[int]bool // indexes of retired listeners without sessions in all loops so far
	for i, l := range s.loops {
		l.ask(stats.WorkListeners, func(r *relay.Relay, _ time.Time) {
			here := r.Deserted()
			if i > 0 {
				maps.DeleteFunc(here, func(index int, _ bool) bool { return !empty[index] })
			}
			empty = here
		})
	}
	for _, l := range s.loops {
		for more := true; more; {
			more = false
			l.ask(stats.WorkListeners, func(r *relay.Relay, _ time.Time) { more = r.CloseDeserted(empty, turnListeners) })
		}
	}
}
