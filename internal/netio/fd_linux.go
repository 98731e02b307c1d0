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

// openSocket makes a non-blocking UDP socket of the family and sets its options.
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
	if err := bindLocal(fd, family, netip.AddrPortFrom(o.Local, o.LocalPort)); err != nil {
		return -1, closeAfter(fd, err)
	}
	return fd, nil
}

// setOptions sets the options that a bound socket can also get.
func setOptions(fd, family int, o SocketOptions) error {
	if err := forbidFragments(fd, family, o.DontFragment); err != nil {
		return err
	}
	type option struct{ level, name, value int }
	var options []option
	if o.ReusePort {
		options = append(options, option{unix.SOL_SOCKET, unix.SO_REUSEPORT, 1})
	}
	_ = setOption(fd, unix.SOL_UDP, unix.UDP_GRO, 1) // older kernels join no datagrams
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

func setOption(fd, level, name, value int) error {
	if err := unix.SetsockoptInt(fd, level, name, value); err != nil {
		return fmt.Errorf("setsockopt %d of level %d: %w", name, level, err)
	}
	return nil
}

// familyOf returns the address family of a socket for addr.
func familyOf(addr netip.AddrPort) int {
	if addr.Addr().Unmap().Is4() {
		return unix.AF_INET
	}
	return unix.AF_INET6
}

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
	_, _, errno := unix.RawSyscall(unix.SYS_GETSOCKNAME, uintptr(fd), uintptr(unsafe.Pointer(&sa)),
		uintptr(unsafe.Pointer(&size)))
	if errno != 0 {
		return netip.AddrPort{}, callError("getsockname", errno)
	}
	return addrPort(&sa), nil
}

// callError returns the error of a raw system call, or nil.
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

// closeAfter closes a descriptor that is useless after err, and returns err.
func closeAfter(fd int, err error) error { return errors.Join(err, unix.Close(fd)) }

// forbidFragments sets whether routers may fragment the datagrams of a socket.
func forbidFragments(fd, family int, forbidden bool) error {
	discover := unix.IP_PMTUDISC_DONT
	if forbidden {
		discover = unix.IP_PMTUDISC_PROBE // only the MTU of the local interface limits datagrams
	}
	if family == unix.AF_INET6 {
		if err := setOption(fd, unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, discover); err != nil {
			return err
		}
	}
	return setOption(fd, unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, discover) // an IPv6 socket has this option for IPv4
}

// bindLocal binds a socket to its source address, if there is one, before it is dialed.
func bindLocal(fd, family int, from netip.AddrPort) error {
	if !from.Addr().IsValid() {
		return nil
	}
	if familyOf(from) != family {
		return ErrAddress
	}
	return bind(fd, family, from)
}

// reservedDescriptors is the number of the process's descriptors that sockets leave free. Operators, lists and logs
// need some, even when there are more players than descriptors.
const reservedDescriptors = 32

// descriptorBound returns the first descriptor that sockets must not use. The kernel always gives the lowest free
// one, so a high descriptor means that many are in use.
func descriptorBound() int {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return int(^uint(0) >> 1)
	}
	most := min(limit.Cur, 1<<30) // "unlimited" is larger
	return int(most - min(reservedDescriptors, most/4))
}

// lacksDescriptors reports whether an accepted connection takes a descriptor of the last quarter. That quarter is for
// the sockets to servers, which the sessions of all clients need.
func (p *epollPoller) lacksDescriptors(fd int) bool { return fd >= p.bound-p.bound/4 }

// Reserve makes the kernel's table of the process's descriptors large enough for this number, within the process's
// limit. Each entry takes 8 bytes. Otherwise the kernel doubles a full table, and the caller waits until all
// processors have noticed (expand_files, synchronize_rcu). During a flood that stops a loop for up to half a second.
func Reserve(descriptors int) {
	some, err := newEpoll()
	if err != nil {
		return // without it, the table grows later
	}
	high, err := unix.FcntlInt(uintptr(some), unix.F_DUPFD_CLOEXEC, min(descriptors, descriptorBound())-1)
	if err == nil {
		_ = unix.Close(high)
	}
	_ = unix.Close(some)
}

// SyscallConn implements syscall.Conn for special kernel calls on a socket. A LocalSocket has none of its own.
func (s *epollSocket) SyscallConn() (syscall.RawConn, error) {
	if s.closed {
		return nil, ErrClosed
	}
	return descriptor(s.fd), nil
}

// descriptor is the syscall.RawConn of a socket. Only its Poller reads and writes it.
type descriptor int

func (d descriptor) Control(f func(fd uintptr)) error {
	f(uintptr(d))
	return nil
}

// Read and Write are reserved for the Poller.
func (descriptor) Read(func(fd uintptr) bool) error  { return errors.ErrUnsupported }
func (descriptor) Write(func(fd uintptr) bool) error { return errors.ErrUnsupported }
