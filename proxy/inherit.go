package proxy

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"slices"

	"tidegate/internal/netio"
)

// inherited is a listening socket that another process opened. The Server keeps it while the other process, or sockets
// of its sessions, may hold the address: a listener that was removed can come back on this socket only.
type inherited struct {
	file *os.File
	place
	loop int // the only one that may listen on it; -1: any
}

// place is where a socket listens.
type place struct {
	addr   netip.AddrPort
	stream bool
}

// inherit looks at the sockets that the process was given.
func inherit(files []*os.File) ([]inherited, error) {
	all := make([]inherited, 0, len(files))
	for _, f := range files {
		addr, stream, err := netio.BoundAddress(f)
		if err != nil {
			return nil, fmt.Errorf("inherited socket %s: %w", f.Name(), err)
		}
		all = append(all, inherited{f, place{addr, stream}, -1})
	}
	return all, nil
}

// adopt opens a listener of a loop on a socket that was inherited for it, or returns nil where there is none left. The
// address is the listener's, as another loop has opened it; the zero AddrPort where this is the first.
func (s *Server) adopt(loop int, poller netio.Poller, l *Listener, addr netip.AddrPort, settings *Settings) (netio.Socket,
	error) {
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
		return sockets.AdoptStream(from.file, l.Transport.streamOptions(false, settings))
	}
	return sockets.Adopt(from.file, netio.SocketOptions{ReceiveBuffer: s.options.ReceiveBuffer})
}

// isAt reports whether a socket at addr is where a listener shall be, which may have left the port open.
func isAt(addr, listener netip.AddrPort) bool {
	return addr == listener || listener.Port() == 0 && addr.Addr() == listener.Addr()
}

// spare closes the inherited sockets without a use. One that no loop has, at the address of a listener, would get a
// share of its clients. TCP sockets are only held by a service manager.
func (s *Server) spare(settings *Settings, addrs []netip.AddrPort) {
	listening := make(map[place]bool)
	for i, addr := range addrs {
		listening[place{addr, settings.Listeners[i].Transport.Stream}] = true
	}
	s.inherited = slices.DeleteFunc(s.inherited, func(from inherited) bool {
		idle := from.loop < 0 && listening[from.place]
		if !idle && (!from.stream || s.options.OthersGone == nil) {
			return false
		}
		_ = from.file.Close()
		return true
	})
}

// warnOfInherited tells of sockets of a service manager that no listener wants. Those of a predecessor are of listeners
// that were removed.
func (s *Server) warnOfInherited() {
	for _, from := range s.inherited {
		if from.loop < 0 && s.options.OthersGone == nil {
			s.options.Log.Warn().Stringer("address", from.addr).Msg("inherited socket that no listener has the address of")
		}
	}
}

// awaitOthers gives the inherited sockets up once the other processes are gone, until ctx is done.
func (s *Server) awaitOthers(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-s.options.OthersGone: // nil: a service manager, which outlives us
		s.disown()
	}
}

// disown closes the inherited sockets. Loops have copies of theirs.
func (s *Server) disown() {
	s.reloading.Lock()
	defer s.reloading.Unlock()
	for _, from := range s.inherited {
		_ = from.file.Close()
	}
	s.inherited = nil
}

// unattended returns copies of the inherited sockets where no loop listens.
func (s *Server) unattended(attended map[place]bool) (files []*os.File, err error) {
	for _, from := range s.inherited {
		if attended[from.place] {
			continue
		}
		file, err := netio.Duplicate(from.file)
		if err != nil {
			return files, err
		}
		files = append(files, file)
	}
	return files, nil
}
