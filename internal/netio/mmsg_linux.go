package netio

import (
	"encoding/binary"
	"net"
	"net/netip"
	"strconv"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// mmsghdr is the kernel's struct mmsghdr: one datagram of a batch.
type mmsghdr struct {
	unix.Msghdr
	n uint32 // bytes received or sent
}

// mmsg and sendmmsg move a batch through a non-blocking socket and return the number of datagrams. They are raw system
// calls, which Go's scheduler does not notice. That is cheaper, and a batch is too short to need it.

func sendmmsg(fd int, batch []mmsghdr) (int, syscall.Errno) {
	if h := &batch[0]; len(batch) == 1 && h.Iovlen == 1 && h.Controllen == 0 {
		return sendto(fd, h)
	}
	return mmsg(unix.SYS_SENDMMSG, fd, batch)
}

// sendto sends one datagram of one piece. The kernel then copies no headers and vectors. That saves a tenth of the
// time where each session has its own socket.
func sendto(fd int, h *mmsghdr) (int, syscall.Errno) {
	to := h.Name
	if h.Namelen == 0 { // the socket is connected, and would refuse an empty address
		to = nil
	}
	n, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(h.Iov.Base)), uintptr(h.Iov.Len),
		unix.MSG_DONTWAIT, uintptr(unsafe.Pointer(to)), uintptr(h.Namelen))
	if errno != 0 {
		return 0, errno
	}
	h.n = uint32(n)
	return 1, 0
}

func mmsg(call uintptr, fd int, batch []mmsghdr) (int, syscall.Errno) {
	n, _, errno := unix.RawSyscall6(call, uintptr(fd), uintptr(unsafe.Pointer(&batch[0])), uintptr(len(batch)),
		unix.MSG_DONTWAIT, 0, 0)
	return int(n), errno
}

// epollPoll returns the number of ready events of the epoll descriptor, without waiting. It is a raw system call, as
// above.
func epollPoll(epfd int, events []unix.EpollEvent) (int, syscall.Errno) {
	n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(epfd), uintptr(unsafe.Pointer(&events[0])),
		uintptr(len(events)), 0, 0, 0)
	return int(n), errno
}

// epollWait is epollPoll that waits up to rest for an event.
func epollWait(epfd int, events []unix.EpollEvent, rest time.Duration) (int, syscall.Errno) {
	ts := unix.NsecToTimespec(rest.Nanoseconds())
	n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT2, uintptr(epfd), uintptr(unsafe.Pointer(&events[0])),
		uintptr(len(events)), uintptr(unsafe.Pointer(&ts)), 0, 0)
	return int(n), errno
}

// recv and send move bytes through a non-blocking TCP socket. They are raw system calls, as above.

func recv(fd int, b []byte) (int, syscall.Errno) {
	n, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)),
		unix.MSG_DONTWAIT, 0, 0)
	return int(n), errno
}

func send(fd int, b []byte) (int, syscall.Errno) {
	n, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)),
		unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
	return int(n), errno
}

// nanosleep sleeps, or returns early on a signal.
func nanosleep(ts *unix.Timespec) {
	_, _, _ = unix.RawSyscall(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(ts)), 0, 0)
}

// sockaddr is room for an address of either family in the kernel's format.
type sockaddr = unix.RawSockaddrInet6

// putSockaddr writes addr for a socket of the family and returns its length, or 0 if such a socket cannot reach addr.
// An IPv6 socket reaches IPv4 by mapped addresses.
func putSockaddr(sa *sockaddr, addr netip.AddrPort, family int) uint32 {
	ip := addr.Addr().Unmap()
	if !ip.IsValid() {
		return 0
	}
	if family == unix.AF_INET {
		return putInet4(sa, ip, addr.Port())
	}
	*sa = sockaddr{Family: unix.AF_INET6, Port: swapped(addr.Port()), Addr: ip.As16(), Scope_id: scopeID(ip.Zone())}
	return unix.SizeofSockaddrInet6
}

func putInet4(sa *sockaddr, ip netip.Addr, port uint16) uint32 {
	if !ip.Is4() {
		return 0
	}
	*(*unix.RawSockaddrInet4)(unsafe.Pointer(sa)) = unix.RawSockaddrInet4{
		Family: unix.AF_INET, Port: swapped(port), Addr: ip.As4(),
	}
	return unix.SizeofSockaddrInet4
}

// addrPort reads an address in the kernel's format. IPv4 is unmapped.
func addrPort(sa *sockaddr) netip.AddrPort {
	if sa.Family == unix.AF_INET {
		sa4 := (*unix.RawSockaddrInet4)(unsafe.Pointer(sa))
		return netip.AddrPortFrom(netip.AddrFrom4(sa4.Addr), swapped(sa4.Port))
	}
	ip := withScope(netip.AddrFrom16(sa.Addr), sa.Scope_id)
	return unmap(netip.AddrPortFrom(ip, swapped(sa.Port)))
}

// withScope adds the zone to a link-local address as a number. A name would need a look-up for each datagram.
func withScope(ip netip.Addr, scope uint32) netip.Addr {
	if scope == 0 || !ip.IsLinkLocalUnicast() {
		return ip
	}
	return ip.WithZone(strconv.FormatUint(uint64(scope), 10))
}

// swapped converts a port between the machine's and the network's byte order, either way.
func swapped(port uint16) uint16 {
	var b [2]byte
	binary.NativeEndian.PutUint16(b[:], port)
	return binary.BigEndian.Uint16(b[:])
}

// scopeID returns the index of the interface with a name or number. It returns 0 if there is none.
func scopeID(zone string) uint32 {
	if zone == "" {
		return 0
	}
	if n, err := strconv.ParseUint(zone, 10, 32); err == nil {
		return uint32(n)
	}
	if i, err := net.InterfaceByName(zone); err == nil {
		return uint32(i.Index)
	}
	return 0
}

// Control messages accompany a datagram. To the kernel, they give the source address and the segment size. From the
// kernel, they give the destination address and the size of joined datagrams.

// controlRoom is the room in bytes for all control messages of a datagram: UDP_GRO, IP_PKTINFO and IPV6_PKTINFO.
const controlRoom = (unix.SizeofCmsghdr + 8) + (unix.SizeofCmsghdr + 16) + (unix.SizeofCmsghdr + 24)

// sourceRoom is the room in bytes for the control message with a source address.
const sourceRoom = unix.SizeofCmsghdr + 24

// read reads the control messages of a datagram.
func (n *metadata) read(b []byte) {
	for len(b) >= unix.SizeofCmsghdr {
		h := (*unix.Cmsghdr)(unsafe.Pointer(&b[0]))
		end := int(h.Len)
		if end < unix.SizeofCmsghdr || end > len(b) {
			return
		}
		n.readOne(h.Level, h.Type, b[unix.SizeofCmsghdr:end])
		b = b[min(unix.CmsgSpace(end-unix.SizeofCmsghdr), len(b)):]
	}
}

func (n *metadata) readOne(level, kind int32, data []byte) {
	switch {
	case level == unix.SOL_UDP && kind == unix.UDP_GRO && len(data) >= 4:
		n.size = int(binary.NativeEndian.Uint32(data))
	case level == unix.SOL_IP && kind == unix.IP_PKTINFO && len(data) >= 12:
		// For a broadcast, ipi_spec_dst is the address to answer from.
		n.at = netip.AddrFrom4([4]byte(data[4:8]))
	case level == unix.SOL_IPV6 && kind == unix.IPV6_PKTINFO && len(data) >= 16:
		// An IPv4 datagram also has an IP_PKTINFO, which is more precise.
		if a := netip.AddrFrom16([16]byte(data[:16])); !a.Is4In6() && !a.IsMulticast() {
			n.at = a
		}
	}
}

// appendSegment appends the control message that splits a message into datagrams of a size.
func appendSegment(b []byte, size int) []byte {
	var data [2]byte
	binary.NativeEndian.PutUint16(data[:], uint16(size))
	return system.append(b, unix.SOL_UDP, unix.UDP_SEGMENT, data[:])
}

// metadata is the kernel's information about a message, apart from its sender.
type metadata struct {
	size int        // of each datagram in the message; 0: there is only one
	at   netip.Addr // destination address, if the socket asks for it
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
	s.demux = newLocalSockets(s, &s.endpoint)
	return setOption(s.fd, unix.SOL_IP, unix.IP_PKTINFO, 1)
}

// LocalSocket implements LocalSockets.
func (s *epollSocket) LocalSocket(at netip.Addr) Socket {
	if f, ok := s.demux.(*localSockets); ok {
		return f.socketOf(s.addr, at)
	}
	return s
}
