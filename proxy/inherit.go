package proxy

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"slices"

	"tidegate/internal/netio"
)

// inherited is a listening socket that another process opened. The Server keeps it while the other process, or
// sockets of its sessions, may hold the address. A removed listener can come back on this socket only.
type inherited struct {
	file *os.File
	place
	loop int // the only loop that may listen on it; -1: any
}

// place is the address and transport of a listening socket.
type place struct {
	addr   netip.AddrPort
	stream bool
}

// inherit reads the addresses of the sockets that another process gave to this one.
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

// adopt opens a listener of a loop on an inherited socket, or returns nil if there is none left for it. addr is the
// listener's address as another loop has opened it. It is the zero AddrPort for the first loop.
func (s *Server) adopt(loop int, poller netio.Poller, l *Listener, addr netip.AddrPort,
	settings *Settings) (netio.Socket, error) {
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

// isAt reports whether a socket at addr suits a listener, which may have left the port open.
func isAt(addr, listener netip.AddrPort) bool {
	return addr == listener || listener.Port() == 0 && addr.Addr() == listener.Addr()
}

// spare closes the inherited sockets without a use. A socket that no loop reads, at the address of a listener, would
// get a share of its clients. Only a service manager keeps TCP sockets open.
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

// warnOfInherited logs the sockets of a service manager that match no listener. Sockets of a predecessor may belong
// to removed listeners.
func (s *Server) warnOfInherited() {
	for _, from := range s.inherited {
		if from.loop < 0 && s.options.OthersGone == nil {
			s.options.Log.Warn().Stringer("address", from.addr).Msg("inherited socket that no listener has the address of")
		}
	}
}

// awaitOthers closes the inherited sockets once the other processes have ended, unless ctx is done earlier.
func (s *Server) awaitOthers(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-s.options.OthersGone: // nil for a service manager, which outlives this process
		s.disown()
	}
}

// disown closes the inherited sockets. Loops have their own copies.
func (s *Server) disown() {
	s.reloading.Lock()
	defer s.reloading.Unlock()
	for _, from := range s.inherited {
		_ = from.file.Close()
	}
	s.inherited = nil
}

// unattended returns copies of the inherited sockets that no loop reads.
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
