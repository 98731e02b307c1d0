package proxy

import (
	"errors"
	"fmt"
	"net/netip"
	"os"

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

// isAt reports whether a socket at addr suits a listener, which may have left the port open.
func isAt(addr, listener netip.AddrPort) bool {
	return addr == listener || listener.Port() == 0 && addr.Addr() == listener.Addr()
}

// ErrNoHandover reports a backend whose sockets cannot go to another process.
var ErrNoHandover = errors.New("only the epoll backend can hand sockets over")
