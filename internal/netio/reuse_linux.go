package netio

import (
	"net/netip"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A closed dialed socket is kept for the next Dial: disconnected, it has neither peer nor port, and Dial connects it
// again. That takes a third of the time of opening a new one with its options and its place in the epoll set. The
// peer cannot tell, because the port is new.

// maxIdle bounds the idle sockets of a Poller. Each takes 2.8 KB in the kernel. idleShare is the divisor of the
// process's descriptors that they may use.
const (
	maxIdle   = 512
	idleShare = 16
)

// maxDiscarded bounds the datagrams that are discarded at a time. Buffers of the usual size hold 277.
const maxDiscarded = 512

// isReusable reports whether sockets dialed with the options differ only in settings that reconnect can change.
func (o SocketOptions) isReusable() bool {
	o.DontFragment, o.SourceKey, o.ReceiveBuffer = false, 0, 0
	return o == SocketOptions{}
}

// dialConnected opens a separate socket to a peer.
func (p *epollPoller) dialConnected(to netip.AddrPort, o SocketOptions) (*epollSocket, error) {
	if !o.isReusable() {
		return p.open(to, o, connect)
	}
	if s := p.reuse(to, o); s != nil {
		return s, nil
	}
	s, err := p.open(to, o, connect)
	if err == nil {
		s.reusable, s.dontFragment, s.buffer = true, o.DontFragment, o.ReceiveBuffer
	}
	return s, err
}

// keepIdle disconnects a closed socket for the next Dial, and reports whether it could.
func (p *epollPoller) keepIdle(s *epollSocket) bool {
	if !s.reusable || s.given != 0 || p.closed || p.guest || len(p.idleSockets) >= min(maxIdle, p.bound/idleShare) {
		return false
	}
	if !disconnect(s.fd) {
		return false
	}
	s.idle, s.idleSince = true, p.turn
	p.idleSockets = append(p.idleSockets, s)
	return true
}

// drainIdle discards the input of an idle socket.
func (p *epollPoller) drainIdle(s *epollSocket) {
	if !discard(s.fd) {
		s.idleSince = p.turn
	}
}

// isDrained reports whether an idle socket certainly has no input: it was polled since it was disconnected.
func (p *epollPoller) isDrained(s *epollSocket) bool {
	return p.sawAll && s.idleSince != p.turn || discard(s.fd)
}

// reuse connects the socket that was idle longest. It returns nil if none of the family is idle or the connect fails.
// A new socket then reports the cause.
func (p *epollPoller) reuse(to netip.AddrPort, o SocketOptions) *epollSocket {
	family := familyOf(to)
	i := slices.IndexFunc(p.idleSockets, func(s *epollSocket) bool { return s.family == family })
	if i < 0 || !to.IsValid() {
		return nil
	}
	old := p.idleSockets[i]
	p.idleSockets = slices.Delete(p.idleSockets, i, i+1)
	old.idle = false
	s := &epollSocket{
		poller: p, fd: old.fd, family: family, drops: old.drops,
		reusable: true, dontFragment: old.dontFragment, buffer: old.buffer,
	}
	if !p.isDrained(old) || s.reconnect(to, o) != nil {
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
	return connect(s.fd, s.family, to) // gives it a new port, which Addr asks for later
}

// discard drops the datagrams and errors that a socket received before it was disconnected. It reports whether those
// were all.
func discard(fd int) bool {
	var b [1]byte
	for range maxDiscarded {
		if _, errno := recv(fd, b[:]); errno == unix.EAGAIN {
			return true
		}
	}
	return false
}

// disconnect removes peer and port of a socket whose port came from connect, and reports whether it could.
func disconnect(fd int) bool {
	unspecified := sockaddr{Family: unix.AF_UNSPEC}
	_, _, errno := unix.RawSyscall(unix.SYS_CONNECT, uintptr(fd), uintptr(unsafe.Pointer(&unspecified)),
		unix.SizeofSockaddrInet6)
	return errno == 0
}
