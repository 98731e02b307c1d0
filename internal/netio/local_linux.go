package netio

import (
	"net/netip"

	"golang.org/x/sys/unix"
)

// localSocket is a wildcard listener at one of the machine's addresses. Its datagrams leave from that address. Its
// owner is the listener's, and Close does nothing.
type localSocket struct {
	endpoint
	listener *epollSocket
	source   []byte // control message
}

func (f *localSocket) Owner() any         { return f.listener.owner }
func (f *localSocket) SetOwner(owner any) { f.listener.owner = owner }
func (f *localSocket) Close()             {}

// Listener implements LocalSocket.
func (f *localSocket) Listener() Socket { return f.listener }

// maxLocalSockets bounds the local sockets of a listener. A machine can own a whole prefix, and strangers choose
// addresses of it. For addresses beyond the bound, the kernel chooses the source of answers.
const maxLocalSockets = 1024

// localSockets are the local sockets of one listener.
type localSockets struct {
	listener *epollSocket
	last     *localSocket // a machine mostly uses one
	all      map[netip.Addr]*localSocket
}

func newLocalSockets(listener *epollSocket) *localSockets {
	return &localSockets{listener: listener, all: make(map[netip.Addr]*localSocket)}
}

func (f *localSockets) socketOf(_ netip.AddrPort, at netip.Addr) Socket {
	switch {
	case !at.IsValid():
		return f.listener
	case f.last != nil && f.last.addr.Addr() == at:
		return f.last
	}
	known := f.all[at]
	if known == nil {
		if len(f.all) >= maxLocalSockets {
			return f.listener
		}
		known = &localSocket{
			endpoint: endpoint{addr: netip.AddrPortFrom(at, f.listener.addr.Port())},
			listener: f.listener, source: appendSource(nil, at),
		}
		f.all[at] = known
	}
	f.last = known
	return known
}

// answerFromUsedAddress makes a wildcard listener answer from the address that the peer used.
func (s *epollSocket) answerFromUsedAddress() error {
	if !s.addr.Addr().IsUnspecified() {
		return nil
	}
	if s.family == unix.AF_INET6 {
		if err := setOption(s.fd, unix.SOL_IPV6, unix.IPV6_RECVPKTINFO, 1); err != nil {
			return err
		}
	}
	s.demux = newLocalSockets(s)
	return setOption(s.fd, unix.SOL_IP, unix.IP_PKTINFO, 1)
}

// LocalSocket implements LocalSockets.
func (s *epollSocket) LocalSocket(at netip.Addr) Socket {
	if f, ok := s.demux.(*localSockets); ok {
		return f.socketOf(s.addr, at)
	}
	return s
}
