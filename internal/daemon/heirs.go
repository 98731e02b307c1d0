package daemon

import (
	"errors"
	"maps"
	"net"
	"net/netip"
	"os"
	"slices"
	"syscall"
	"time"

	"tidegate/internal/joining"
	"tidegate/internal/netio"
	"tidegate/internal/record"
	"tidegate/proxy/relay"
)

// The joins of NetherNet's clients go on at other processes: at a successor, or at another node of the fleet, where the
// client's datagrams arrive.

// givenJoin is a join for another process.
type givenJoin struct {
	Listener uint64              `cbor:"1,keyasint"` // stray.ListenerID
	Ticket   joining.SavedTicket `cbor:"2,keyasint"`
	Came     bool                `cbor:"3,keyasint,omitempty"` // its player is at the sender
}

// sharer tells the fleet of a listener's joins.
func (s *joinServers) sharer(listener uint64) joining.Share {
	return func(v *joining.SavedTicket, came bool) {
		if share := s.share.Load(); share != nil {
			(*share)(record.Append(nil, &givenJoin{listener, *v, came}))
		}
	}
}

// lend takes a join of another node.
func (s *joinServers) lend(join []byte) {
	if v, table := s.read(join); table != nil {
		table.Lend(time.Now(), &v.Ticket, v.Came)
	}
}

// takeLate takes a join that the predecessor has answered since it gave the others.
func (s *joinServers) takeLate(join []byte) {
	if v, table := s.read(join); table != nil && table.Restore(time.Now(), []joining.SavedTicket{v.Ticket}) == 0 {
		table.Count(joining.Asked)
		table.Count(joining.Answered)
	}
}

// read reads a join, and returns its table; nil: this process cannot be its server.
func (s *joinServers) read(join []byte) (v givenJoin, table *joining.Tickets) {
	if record.Read(join, &v) != nil {
		return v, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if digest := v.Ticket.Certificate; digest != "" && (s.host == nil || s.host.Fingerprint().Digest != digest) {
		return v, nil
	}
	return v, s.ids[v.Listener]
}

// hold lets all answers wait for release. The joins that are answered from then on go to heir; nil: they stay.
func (s *joinServers) hold() (release func(heir func(join []byte) error)) {
	s.mu.Lock()
	held := maps.Clone(s.ids)
	s.mu.Unlock()
	for _, table := range held {
		table.Hold()
	}
	return func(heir func([]byte) error) {
		for id, table := range held {
			var give func(v *joining.SavedTicket) error
			if heir != nil {
				give = func(v *joining.SavedTicket) error { return heir(record.Append(nil, &givenJoin{id, *v, false})) }
			}
			table.Release(give)
		}
	}
}

// copyPorts returns copies of the TCP ports, for a successor.
func (s *joinServers) copyPorts() (copies []int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.open {
		raw, err := one.raw.SyscallConn()
		if err != nil {
			continue // it has closed
		}
		_ = raw.Control(func(fd uintptr) {
			if fd, err := netio.Duplicate(int(fd)); err == nil { // otherwise the successor opens the port
				copies = append(copies, fd)
			}
		})
	}
	return copies
}

// takePorts takes the TCP ports of joins out of the sockets that a predecessor or a service manager has given.
func (s *joinServers) takePorts(sockets []int, settings *relay.Settings) (rest []int) {
	return slices.DeleteFunc(sockets, func(fd int) bool {
		at, stream, err := netio.BoundAddress(fd)
		if err != nil || !stream || !slices.ContainsFunc(settings.Listeners, func(l relay.Listener) bool {
			return isEdge(&l) && isSamePort(at, l.Addr)
		}) {
			return false
		}
		file := os.NewFile(uintptr(fd), "joins")
		defer func() { _ = file.Close() }()
		if l, err := net.FileListener(file); err == nil {
			s.ports = append(s.ports, l.(*net.TCPListener))
		}
		return true
	})
}

// isSamePort reports whether a TCP port is that of a listener. At all addresses of a machine, IPv4 and IPv6 share it.
func isSamePort(tcp, listener netip.AddrPort) bool {
	a, b := tcp.Addr().Unmap(), listener.Addr().Unmap()
	return tcp.Port() == listener.Port() && (a == b || a.IsUnspecified() && b.IsUnspecified())
}

// listen returns the TCP port of a listener. A predecessor that does not give its port leaves it.
func (s *joinServers) listen(at netip.AddrPort) (l *net.TCPListener, err error) {
	for i, one := range s.ports {
		if isSamePort(one.Addr().(*net.TCPAddr).AddrPort(), at) {
			s.ports = slices.Delete(s.ports, i, i+1)
			return one, nil
		}
	}
	for until := time.Now().Add(portTime); ; time.Sleep(20 * time.Millisecond) {
		l, err = net.ListenTCP("tcp", net.TCPAddrFromAddrPort(at))
		if err == nil || !errors.Is(err, syscall.EADDRINUSE) || time.Now().After(until) {
			return l, err
		}
	}
}

// portTime is how long a predecessor may take to leave a TCP port.
const portTime = 2 * time.Second
