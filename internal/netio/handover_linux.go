package netio

import (
	"errors"
	"fmt"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// errWrongSocket says that a socket has the wrong type.
var errWrongSocket = errors.New("wrong type of socket")

func (p *epollPoller) Adopt(from int, o SocketOptions) (Socket, error) {
	fd, family, err := p.adoptDescriptor(from, unix.SOCK_DGRAM)
	if err != nil {
		return nil, fmt.Errorf("adopt socket: %w", err)
	}
	s := &epollSocket{poller: p, fd: fd, family: family}
	s.drops = s.KernelDrops() // earlier drops belong to the other process
	if err := setOptions(fd, family, o.withListenDefaults()); err != nil {
		return nil, closeAfter(fd, err)
	}
	if s.addr, err = boundTo(fd); err != nil {
		return nil, closeAfter(fd, err)
	}
	if err := s.answerFromUsedAddress(); err != nil {
		return nil, closeAfter(fd, err)
	}
	if err := p.watch(s, fd, unix.EPOLLIN); err != nil {
		return nil, closeAfter(fd, err)
	}
	return s, nil
}

func (p *epollPoller) AdoptStream(from int, o StreamOptions) (Socket, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	fd, _, err := p.adoptDescriptor(from, unix.SOCK_STREAM)
	if err != nil {
		return nil, fmt.Errorf("adopt socket: %w", err)
	}
	l := &epollListener{poller: p, fd: fd, options: o, greeted: newHellos(o.Hellos)}
	if err := l.start(); err != nil {
		return nil, closeAfter(fd, err)
	}
	return l, nil
}

// adoptDescriptor copies the descriptor of a socket and checks its type.
func (p *epollPoller) adoptDescriptor(from, kind int) (fd, family int, err error) {
	if p.closed {
		return -1, 0, ErrClosed
	}
	if fd, err = Duplicate(from); err != nil {
		return -1, 0, err
	}
	got, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
	if err != nil {
		return -1, 0, closeAfter(fd, os.NewSyscallError("getsockopt", err))
	}
	if got != kind {
		return -1, 0, closeAfter(fd, errWrongSocket)
	}
	if family, err = unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN); err == nil {
		err = unix.SetNonblock(fd, true)
	}
	if err != nil {
		return -1, 0, closeAfter(fd, err)
	}
	return fd, family, nil
}

func (p *epollPoller) Copy(s Socket) (int, error) {
	fd, ok := descriptorOf(s)
	if !ok {
		return -1, errWrongSocket
	}
	return Duplicate(fd)
}

// descriptorOf returns the file descriptor of a socket that may be handed over.
func descriptorOf(s Socket) (fd int, ok bool) {
	switch s := s.(type) {
	case *epollSocket:
		return s.fd, true
	case *epollListener:
		return s.fd, true
	}
	return -1, false
}

// Duplicate copies a descriptor. The copy is closed on exec.
func Duplicate(fd int) (int, error) {
	copied, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	return copied, os.NewSyscallError("fcntl", err)
}

// TakeDescriptor returns the descriptor of a file, which it closes.
func TakeDescriptor(f *os.File) (fd int, err error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return -1, errors.Join(err, f.Close())
	}
	var inner error
	err = raw.Control(func(from uintptr) { fd, inner = Duplicate(int(from)) })
	return fd, errors.Join(err, inner, f.Close())
}

// BoundAddress returns the address of a socket of another process, and whether it is a TCP socket.
func BoundAddress(fd int) (addr netip.AddrPort, stream bool, err error) {
	kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
	if err != nil {
		return addr, false, os.NewSyscallError("getsockopt", err)
	}
	addr, err = boundTo(fd)
	return addr, kind == unix.SOCK_STREAM, err
}
