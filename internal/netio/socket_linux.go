package netio

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// epollSocket is a Socket of an epollPoller.
type epollSocket struct {
	endpoint
	poller *epollPoller
	fd     int
	family int
	queue  chain  // what is to be sent
	drops  uint32 // the kernel's own count of its drops, as last asked for
	readIn uint32 // the turn of the poller in which it was read last
	round  round
	split  splitter // of a descriptor that several Sockets share; nil for one

	queued       bool   // several messages have waited since drops were counted
	filtered     bool   // a filter that does not count its drops is before it
	muted        bool   // another process reads it, and counts its drops
	plain        bool   // dialed in the way of which one is like another, and so of use to the next Dial
	dontFragment bool   // of a plain one
	buffer       int    // SocketOptions.ReceiveBuffer of a plain one
	kept         bool   // for the next Dial: it is closed, and has its descriptor still
	keptIn       uint32 // the turn of the poller since which nothing can have come to it
}

// facing has a listener that is bound to all addresses answer from the one that a peer used.
func (s *epollSocket) facing() error {
	if !s.addr.Addr().IsUnspecified() {
		return nil
	}
	if s.family == unix.AF_INET6 {
		if err := setOption(s.fd, unix.SOL_IPV6, unix.IPV6_RECVPKTINFO, 1); err != nil {
			return err
		}
	}
	s.split = newFaces(s)
	return setOption(s.fd, unix.SOL_IP, unix.IP_PKTINFO, 1)
}

// Addr implements Socket. The port of a socket that was dialed again is asked for when somebody wants to know it.
func (s *epollSocket) Addr() netip.AddrPort {
	if !s.addr.IsValid() && !s.closed {
		s.addr, _ = boundTo(s.fd) // it has an address, which nothing but a wrong descriptor keeps from it
	}
	return s.addr
}

func (s *epollSocket) Close() {
	if s.closed {
		return
	}
	s.poller.out.flushSocket(s)
	if !s.muted && (!s.dialed() || s.queued) { // else its buffer was never full
		s.countDrops()
	}
	s.closed = true
	if !s.dialed() {
		s.poller.unwatch(s.fd)
	}
	if !s.poller.keep(s) {
		s.poller.release(s.fd)
	}
}

func (s *epollSocket) shut() {
	s.Close()
	if s.kept {
		s.poller.release(s.fd)
	}
}

// openSocket makes a non-blocking UDP socket of the family, with its options set.
func openSocket(family int, o SocketOptions) (fd int, err error) {
	fd, err = unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, unix.IPPROTO_UDP)
	if err != nil {
		return -1, os.NewSyscallError("socket", err)
	}
	if family == unix.AF_INET6 {
		if err := setOption(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 0); err != nil {
			return -1, closeAfter(fd, err)
		}
	}
	if err := setOptions(fd, family, o); err != nil {
		return -1, closeAfter(fd, err)
	}
	if err := bindLocal(fd, family, o.Local); err != nil {
		return -1, closeAfter(fd, err)
	}
	return fd, nil
}

// setOptions sets what can be set of a bound socket too.
func setOptions(fd, family int, o SocketOptions) error {
	if err := forbidFragments(fd, family, o.DontFragment); err != nil {
		return err
	}
	type option struct{ level, name, value int }
	var options []option
	if o.ReusePort {
		options = append(options, option{unix.SOL_SOCKET, unix.SO_REUSEPORT, 1})
	}
	_ = setOption(fd, unix.SOL_UDP, unix.UDP_GRO, 1) // older kernels join nothing
	for _, opt := range options {
		if err := setOption(fd, opt.level, opt.name, opt.value); err != nil {
			return err
		}
	}
	if err := setReceiveBuffer(fd, o.ReceiveBuffer); err != nil {
		return err
	}
	return setBuffer(fd, unix.SO_SNDBUFFORCE, unix.SO_SNDBUF, o.SendBuffer)
}

// rxHash is where a classic BPF program finds a datagram's flow hash (SKF_AD_OFF + SKF_AD_RXHASH in linux/filter.h).
const rxHash = 0xffff_f000 + 32

// steer has the kernel choose, for a socket that is bound, among the first n sockets that share an address by the hash of the flow. What it does of its
// own accord depends on how many sockets there are in all.
func steer(fd, n int) error {
	program := [...]unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: rxHash},
		{Code: unix.BPF_ALU | unix.BPF_MOD | unix.BPF_K, K: uint32(n)},
		{Code: unix.BPF_RET | unix.BPF_A},
	}
	return os.NewSyscallError("setsockopt", unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_REUSEPORT_CBPF,
		&unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}))
}

func setOption(fd, level, name, value int) error {
	if err := unix.SetsockoptInt(fd, level, name, value); err != nil {
		return fmt.Errorf("setsockopt %d of level %d: %w", name, level, err)
	}
	return nil
}

// familyOf is the address family of a socket that is bound or connected to addr.
func familyOf(addr netip.AddrPort) int {
	if addr.Addr().Unmap().Is4() {
		return unix.AF_INET
	}
	return unix.AF_INET6
}

// bind, connect and boundTo are those of package unix, for addresses of this package. The two that each session needs are raw,
// as in mmsg_linux.go: they take no time either.

func bind(fd, family int, addr netip.AddrPort) error {
	return os.NewSyscallError("bind", unix.Bind(fd, unixSockaddr(addr, family)))
}

func connect(fd, family int, to netip.AddrPort) error {
	var sa sockaddr
	size := putSockaddr(&sa, to, family)
	if size == 0 {
		return ErrAddress
	}
	_, _, errno := unix.RawSyscall(unix.SYS_CONNECT, uintptr(fd), uintptr(unsafe.Pointer(&sa)), uintptr(size))
	return callError("connect", errno)
}

func unixSockaddr(addr netip.AddrPort, family int) unix.Sockaddr {
	ip, port := addr.Addr().Unmap(), int(addr.Port())
	if family == unix.AF_INET {
		return &unix.SockaddrInet4{Port: port, Addr: ip.As4()}
	}
	return &unix.SockaddrInet6{Port: port, ZoneId: scopeID(ip.Zone()), Addr: ip.As16()}
}

func boundTo(fd int) (netip.AddrPort, error) {
	var sa sockaddr
	size := uint32(unix.SizeofSockaddrInet6)
	_, _, errno := unix.RawSyscall(unix.SYS_GETSOCKNAME, uintptr(fd), uintptr(unsafe.Pointer(&sa)), uintptr(unsafe.Pointer(&size)))
	if errno != 0 {
		return netip.AddrPort{}, callError("getsockname", errno)
	}
	return addrPort(&sa), nil
}

// callError is the error of a raw system call; nil for none.
func callError(name string, errno syscall.Errno) error {
	if errno == 0 {
		return nil
	}
	return os.NewSyscallError(name, errno)
}

func ofSockaddr(sa unix.Sockaddr) netip.AddrPort {
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(sa.Addr), uint16(sa.Port))
	case *unix.SockaddrInet6:
		return unmap(netip.AddrPortFrom(withScope(netip.AddrFrom16(sa.Addr), sa.ZoneId), uint16(sa.Port)))
	}
	return netip.AddrPort{}
}

// closeAfter closes a descriptor that err has made useless, and returns err.
func closeAfter(fd int, err error) error { return errors.Join(err, unix.Close(fd)) }
