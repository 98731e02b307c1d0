package netio

import (
	"net"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// epollSocket is a Socket of an epollPoller.
type epollSocket struct {
	endpoint
	poller    *epollPoller
	fd        int
	family    int
	queue     chain  // datagrams to be sent
	drops     uint32 // the kernel's counter of drops at the last query
	readIn    uint32 // the Poller's turn of the last read
	pollState pollState
	demux     demultiplexer // of a descriptor that several Sockets share; nil otherwise

	queued       bool   // several messages have waited since drops were last counted
	filtered     bool   // a filter stands before it that does not count its drops
	reusable     bool   // dialed without special options, so the next Dial can reuse it
	dontFragment bool   // of a reusable one
	buffer       int    // SocketOptions.ReceiveBuffer of a reusable one
	idle         bool   // for the next Dial: it is closed, but has its descriptor
	idleSince    uint32 // no input can have come since this turn of the Poller
	given        uint8  // the round of Give that has returned it; 0: none
}

// Addr implements Socket. The port of a reused socket is asked for on demand.
func (s *epollSocket) Addr() netip.AddrPort {
	if !s.addr.IsValid() && !s.closed {
		s.addr, _ = boundTo(s.fd) // it fails only for a wrong descriptor
	}
	return s.addr
}

func (s *epollSocket) Close() {
	if s.closed {
		return
	}
	s.poller.out.flushSocket(s)
	if !s.dialed() || s.queued { // else its buffer was never full
		s.countDrops()
	}
	s.closed = true
	if !s.dialed() || s.given != 0 { // another process has a copy
		s.poller.unwatch(s.fd)
	}
	if !s.poller.keepIdle(s) {
		s.poller.release(s.fd)
	}
}

func (s *epollSocket) shut() {
	s.Close()
	if s.idle {
		s.poller.release(s.fd)
	}
}

// bind, connect and boundTo are the calls of package unix for netip addresses. connect and boundTo are raw system
// calls, as in mmsg_linux.go, because each session needs them and they do not block.

// AllowFragments implements FragmentControl.
func (s *epollSocket) AllowFragments() error {
	err := forbidFragments(s.fd, s.family, false)
	s.dontFragment = s.dontFragment && err != nil
	return err
}

// setBuffer sets the size of a kernel buffer. It exceeds the system's limit if the process is allowed to.
func setBuffer(fd, force, ask, size int) error {
	if size == 0 || setOption(fd, unix.SOL_SOCKET, force, size) == nil {
		return nil
	}
	return setOption(fd, unix.SOL_SOCKET, ask, size)
}

func setReceiveBuffer(fd, size int) error {
	return setBuffer(fd, unix.SO_RCVBUFFORCE, unix.SO_RCVBUF, size)
}

// setReadBuffer sets the receive buffer of a socket of package net.
func setReadBuffer(conn *net.UDPConn, size int) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	err = raw.Control(func(fd uintptr) { inner = setReceiveBuffer(int(fd), size) })
	if err != nil {
		return err
	}
	return inner
}

// GrantedBuffer returns how much of a receive buffer the kernel grants this process. Without the capability
// CAP_NET_ADMIN the limit is net.core.rmem_max.
func GrantedBuffer(size int) (int, error) {
	fd, err := openSocket(unix.AF_INET, SocketOptions{ReceiveBuffer: size})
	if err != nil {
		return 0, err
	}
	doubled, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF)
	return doubled / 2, closeAfter(fd, os.NewSyscallError("getsockopt", err))
}
