package proxy

import (
	"fmt"
	"net/netip"
	"os"

	"tidegate/internal/netio"
)

// inherited is a listening socket that another process opened.
type inherited struct {
	file   *os.File
	addr   netip.AddrPort
	stream bool
}

// inherit looks at the sockets that the process was given.
func inherit(files []*os.File) ([]inherited, error) {
	all := make([]inherited, 0, len(files))
	for _, f := range files {
		addr, stream, err := netio.Bound(f)
		if err != nil {
			return nil, fmt.Errorf("inherited socket %s: %w", f.Name(), err)
		}
		all = append(all, inherited{f, addr, stream})
	}
	return all, nil
}

// adopt opens a listener on a socket that was inherited for it, or returns nil where there is none left.
func (s *Server) adopt(poller netio.Poller, l *Listener, settings *Settings) (netio.Socket, error) {
	for i := range s.inherited {
		from := &s.inherited[i]
		if from.file == nil || from.stream != l.Transport.Stream || !isAt(from.addr, l.Addr) {
			continue
		}
		sockets, ok := poller.(netio.Handover)
		if !ok {
			return nil, ErrNoHandover
		}
		file := from.file
		from.file = nil
		defer func() { _ = file.Close() }() // the poller has a copy
		if from.stream {
			return sockets.AdoptStream(file, l.Transport.streamOptions(false, settings))
		}
		return sockets.Adopt(file, netio.SocketOptions{ReceiveBuffer: s.options.ReceiveBuffer})
	}
	return nil, nil
}

// isAt reports whether a socket at addr is where a listener shall be, which may have left the port open.
func isAt(addr, listener netip.AddrPort) bool {
	return addr == listener || listener.Port() == 0 && addr.Addr() == listener.Addr()
}

// disown closes the sockets that no listener wanted.
func (s *Server) disown() {
	for _, from := range s.inherited {
		if from.file != nil {
			_ = from.file.Close()
			s.options.Log.Warn().Stringer("address", from.addr).Msg("inherited socket that no listener has the address of")
		}
	}
	s.inherited = nil
}
