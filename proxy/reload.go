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
