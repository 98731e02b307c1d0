package netio

import (
	"errors"
	"fmt"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// errNotOurs is for a socket that is not of the kind that is asked for.
var errNotOurs = errors.New("not such a socket")

func (p *epollPoller) Adopt(f *os.File, o SocketOptions) (Socket, error) {
	fd, family, err := p.inherit(f, unix.SOCK_DGRAM)
	if err != nil {
		return nil, fmt.Errorf("adopt socket: %w", err)
	}
	s := &epollSocket{poller: p, fd: fd, family: family}
	s.drops = s.KernelDrops() // those before are the other process's
	if err := setOptions(fd, family, o.withListenDefaults()); err != nil {
		return nil, closeAfter(fd, err)
	}
	if s.addr, err = boundTo(fd); err != nil {
		return nil, closeAfter(fd, err)
	}
	if err := s.facing(); err != nil {
		return nil, closeAfter(fd, err)
	}
	if err := p.watch(s, fd, unix.EPOLLIN); err != nil {
		return nil, closeAfter(fd, err)
	}
	return s, nil
}

func (p *epollPoller) AdoptStream(f *os.File, o StreamOptions) (Socket, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	fd, _, err := p.inherit(f, unix.SOCK_STREAM)
	if err != nil {
		return nil, fmt.Errorf("adopt socket: %w", err)
	}
	l := &epollListener{poller: p, fd: fd, options: o}
	if err := l.start(); err != nil {
		return nil, closeAfter(fd, err)
	}
	return l, nil
}

// inherit copies the descriptor of a socket of a kind.
func (p *epollPoller) inherit(f *os.File, kind int) (fd, family int, err error) {
	if p.closed {
		return -1, 0, ErrClosed
	}
	raw, err := f.SyscallConn()
	if err != nil {
		return -1, 0, err
	}
	var inner error
	err = raw.Control(func(from uintptr) {
		fd, inner = unix.FcntlInt(from, unix.F_DUPFD_CLOEXEC, 0)
	})
	if err := errors.Join(err, inner); err != nil {
		return -1, 0, err
	}
	got, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
	if err != nil {
		return -1, 0, closeAfter(fd, os.NewSyscallError("getsockopt", err))
	}
	if got != kind {
		return -1, 0, closeAfter(fd, errNotOurs)
	}
	if family, err = unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN); err == nil {
		err = unix.SetNonblock(fd, true)
	}
	if err != nil {
		return -1, 0, closeAfter(fd, err)
	}
	return fd, family, nil
}

func (p *epollPoller) File(s Socket) (*os.File, error) {
	fd, ok := descriptorOf(s)
	if !ok {
		return nil, errNotOurs
	}
	return duplicate(fd, s.Addr().String())
}

// descriptorOf is the file descriptor of a socket that may be handed over.
func descriptorOf(s Socket) (fd int, ok bool) {
	switch s := s.(type) {
	case *epollSocket:
		return s.fd, true
	case *epollListener:
		return s.fd, true
	}
	return -1, false
}

func (p *epollPoller) ConnectPeer(listener Socket, peer netip.AddrPort, h Handler) (Socket, error) {
	l, ok := ListenerOf(listener).(*epollSocket)
	if !ok || l.dialed() {
		return nil, errNotOurs
	}
	// Sockets that share an address must all be said to.
	if err := setOption(l.fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); err != nil {
		return nil, err
	}
	fd, err := openSocket(l.family, SocketOptions{ReusePort: true}.withDialDefaults())
	if err != nil {
		return nil, err
	}
	s := &epollSocket{poller: p, fd: fd, family: l.family}
	s.owner = l.owner
	if err := bind(fd, l.family, listener.Addr()); err != nil {
		return nil, closeAfter(fd, err)
	}
	if err := connect(fd, l.family, peer); err != nil {
		return nil, closeAfter(fd, err)
	}
	s.addr, s.peer = listener.Addr(), unmap(peer)
	p.takeStrays(l, fd, h)
	if err := p.watch(s, fd, unix.EPOLLIN); err != nil {
		return nil, closeAfter(fd, err)
	}
	return s, nil
}

// takeStrays gives h what a socket received between its bind and its connect, when it was one of several that anybody's
// datagrams go to.
func (p *epollPoller) takeStrays(l *epollSocket, fd int, h Handler) {
	for range 4 {
		p.out.flush() // which leaves all of the inbox free
		n, errno := p.in.read(fd, listenBatch, true)
		if errno != 0 {
			return
		}
		p.deliver(l, n, h)
	}
}

func (p *epollPoller) StopReceiving(s Socket) {
	switch s := s.(type) {
	case *epollListener:
		if !s.closed {
			s.stop()
		}
	case *epollSocket:
		if s.closed {
			return
		}
		s.countDrops()
		s.muted = true
		if !p.patrol.dismiss(s) { // else it is in no set
			p.unwatch(s.fd)
		}
	}
}

// Duplicate copies a descriptor, for another process.
func Duplicate(f *os.File) (*os.File, error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	var copied *os.File
	var inner error
	err = raw.Control(func(fd uintptr) { copied, inner = duplicate(int(fd), f.Name()) })
	return copied, errors.Join(err, inner)
}

// duplicate copies a descriptor. The copy does not outlive an exec.
func duplicate(fd int, name string) (*os.File, error) {
	copied, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	return os.NewFile(uintptr(copied), name), nil
}

// BoundAddress tells what a socket of another process is bound to, and whether it is one of streams.
func BoundAddress(f *os.File) (addr netip.AddrPort, stream bool, err error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return addr, false, err
	}
	var inner error
	err = raw.Control(func(fd uintptr) {
		var kind int
		if kind, inner = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TYPE); inner == nil {
			stream = kind == unix.SOCK_STREAM
			addr, inner = boundTo(int(fd))
		}
	})
	return addr, stream, errors.Join(err, inner)
}
