package netio

import (
	"net/netip"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A dialed socket that is closed to us need not be closed to the kernel: disconnected, it has neither peer nor port, and the
// next Dial connects it anew. That takes a third of the time of closing one and opening another with its options and its
// place in the epoll set, and the peer cannot tell: the port is another.

// maxKept bounds the sockets that a Poller keeps to be used again, each of 2.8 KB of the kernel's; keptShare is which part of
// the process's descriptors they may have.
const (
	maxKept   = 64
	keptShare = 16
)

// mostDiscarded bounds the datagrams that are read to be discarded at a time. Buffers of the usual size hold 277.
const mostDiscarded = 512

// isPlain reports whether sockets dialed with the options differ only in what reconnect can change.
func (o SocketOptions) isPlain() bool {
	o.DontFragment, o.SourceKey, o.ReceiveBuffer = false, 0, 0
	return o == SocketOptions{}
}

// dialConnected opens a socket of its own towards a peer.
func (p *epollPoller) dialConnected(to netip.AddrPort, o SocketOptions) (*epollSocket, error) {
	if !o.isPlain() {
		return p.open(to, o, connect)
	}
	if s := p.reuse(to, o); s != nil {
		return s, nil
	}
	s, err := p.open(to, o, connect)
	if err == nil {
		s.plain, s.dontFragment, s.buffer = true, o.DontFragment, o.ReceiveBuffer
	}
	return s, err
}

// keep disconnects a socket that was closed, for the next Dial, and reports whether it could.
func (p *epollPoller) keep(s *epollSocket) bool {
	if !s.plain || p.closed || len(p.kept) >= min(maxKept, p.bound/keptShare) || !disconnect(s.fd) {
		return false
	}
	s.kept, s.keptIn = true, p.turn
	p.kept = append(p.kept, s)
	return true
}

// clean drops what has come to a kept socket.
func (p *epollPoller) clean(s *epollSocket) {
	if !discard(s.fd) {
		s.keptIn = p.turn
	}
}

// isClean reports whether a kept socket has surely nothing unread: it has been looked at since it was disconnected.
func (p *epollPoller) isClean(s *epollSocket) bool {
	return p.sawAll && s.keptIn != p.turn || discard(s.fd)
}

// reuse connects the socket that was kept for the longest; nil: none of the family was kept, or it cannot be connected, and
// another will tell why.
func (p *epollPoller) reuse(to netip.AddrPort, o SocketOptions) *epollSocket {
	family := familyOf(to)
	i := slices.IndexFunc(p.kept, func(s *epollSocket) bool { return s.family == family })
	if i < 0 || !to.IsValid() {
		return nil
	}
	old := p.kept[i]
	p.kept = slices.Delete(p.kept, i, i+1)
	old.kept = false
	s := &epollSocket{
		poller: p, fd: old.fd, family: family, drops: old.drops, plain: true, dontFragment: old.dontFragment, buffer: old.buffer,
	}
	if !p.isClean(old) || s.reconnect(to, o) != nil {
		p.release(s.fd)
		return nil
	}
	p.sockets[s.fd] = s
	return s
}

func (s *epollSocket) reconnect(to netip.AddrPort, o SocketOptions) error {
	if s.dontFragment != o.DontFragment {
		if err := forbidFragments(s.fd, s.family, o.DontFragment); err != nil {
			return err
		}
		s.dontFragment = o.DontFragment
	}
	if s.buffer != o.ReceiveBuffer {
		if err := setReceiveBuffer(s.fd, o.ReceiveBuffer); err != nil {
			return err
		}
		s.buffer = o.ReceiveBuffer
	}
	return connect(s.fd, s.family, to) // which tells its port to whoever asks for it
}

// discard drops what a socket received, or was told, before it was disconnected, and reports whether that was all.
func discard(fd int) bool {
	var b [1]byte
	for range mostDiscarded {
		if _, errno := recv(fd, b[:]); errno == unix.EAGAIN {
			return true
		}
	}
	return false
}

// disconnect takes peer and port from a socket that has its port from connect, and reports whether it could.
func disconnect(fd int) bool {
	nobody := sockaddr{Family: unix.AF_UNSPEC}
	_, _, errno := unix.RawSyscall(unix.SYS_CONNECT, uintptr(fd), uintptr(unsafe.Pointer(&nobody)), unix.SizeofSockaddrInet6)
	return errno == 0
}
