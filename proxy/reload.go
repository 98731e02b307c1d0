package proxy

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"tidegate/internal/netio"
)

// Errors of Server.Reload.
var (
	ErrEnded   = errors.New("the proxy is ending")
	ErrFraming = errors.New("its frames cannot change without a restart") // of a TCP listener
)

// Reload replaces the settings, which must not change any more: all of them, or none where a listener cannot be opened.
//
// No session ends. Each keeps the route that it came by; limits and what decides about newcomers hold at once. A
// listener whose address and transport are as before keeps its socket, whatever its name; one that is gone lets nobody
// in any more, and closes with its last session. Servers, routes and Riptide's client IDs are known again by name.
func (s *Server) Reload(settings *Settings) error {
	s.reloading.Lock()
	defer s.reloading.Unlock()
	addrs, err := s.reuse(settings)
	if err != nil {
		return err
	}
	s.reserve(settings)
	sockets := make([][]netio.Socket, len(s.loops)) // of each loop, by listener; nil where there is one
	for i, l := range s.loops {
		opened := l.ask(func(*Relay, time.Time) { sockets[i], err = s.openFresh(l.poller, settings, addrs) })
		if !opened {
			err = ErrEnded
		}
		if err != nil {
			s.discard(sockets)
			return err
		}
	}
	for i, l := range s.loops {
		if !l.ask(func(r *Relay, now time.Time) { r.reload(now, settings, sockets[i]) }) {
			return ErrEnded
		}
	}
	s.keep(settings, addrs)
	s.reloadKernel()
	return nil
}

// reuse finds the addresses of the listeners that are there already; the others' are zero.
func (s *Server) reuse(settings *Settings) ([]netip.AddrPort, error) {
	addrs := make([]netip.AddrPort, len(settings.Listeners))
	for i := range settings.Listeners {
		l := &settings.Listeners[i]
		for j := range s.settings.Listeners {
			old := &s.settings.Listeners[j]
			switch {
			case l.sameDoor(old):
				addrs[i] = s.addrs[j]
			case l.Addr == old.Addr && l.Transport.Stream && old.Transport.Stream:
				return nil, fmt.Errorf("listener %s: %w", l.Name, ErrFraming)
			}
		}
	}
	return addrs, nil
}

// openFresh opens, in one loop, the sockets of listeners that were not there, and notes their addresses.
func (s *Server) openFresh(poller netio.Poller, settings *Settings, addrs []netip.AddrPort) ([]netio.Socket, error) {
	sockets := make([]netio.Socket, len(addrs))
	for i := range addrs {
		l := &settings.Listeners[i]
		if s.serves(l) {
			continue
		}
		socket, err := l.open(poller, addrs[i], settings, &s.options)
		if err != nil {
			return sockets, fmt.Errorf("listener %s: %w", l.Name, err)
		}
		sockets[i], addrs[i] = socket, socket.Addr()
	}
	return sockets, nil
}

// serves reports whether a listener is there already.
func (s *Server) serves(l *Listener) bool {
	for i := range s.settings.Listeners {
		if l.sameDoor(&s.settings.Listeners[i]) {
			return true
		}
	}
	return false
}

// discard closes sockets that are not needed after all.
func (s *Server) discard(sockets [][]netio.Socket) {
	for i, l := range s.loops {
		l.ask(func(*Relay, time.Time) {
			for _, socket := range sockets[i] {
				if socket != nil {
					socket.Close()
				}
			}
		})
	}
}

// reload replaces the settings. sockets are those of the listeners that are new.
func (r *Relay) reload(now time.Time, s *Settings, sockets []netio.Socket) {
	for _, p := range r.pingers {
		p.close()
	}
	r.pingers = nil
	r.closeCheckers(now)
	old := r.doors
	r.arrange(now, s)
	r.slowAll() // what may be forwarded as the settings are now will be again
	r.table.Limit(s.Limits)
	r.plains.Limit(s.Limits)
	for i, socket := range sockets {
		if socket != nil {
			r.Attach(i, socket)
		}
	}
	for _, d := range old {
		if !r.has(d) {
			d.retire()
		}
	}
	r.Filter(now, s.Filter)
}

func (r *Relay) has(d *door) bool {
	for _, present := range r.doors {
		if present == d {
			return true
		}
	}
	return false
}
