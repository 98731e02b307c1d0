//go:build linux || darwin

package netio

import (
	"errors"
	"net"
	"net/netip"
	"unsafe"

	"golang.org/x/sys/unix"
)

// localRoom is the room in bytes for the control messages with a destination address.
const localRoom = 2 * (unix.SizeofCmsghdr + 24)

// askLocal asks the system for the destination address of each datagram. An IPv6 socket may get IPv4 ones, too.
func askLocal(conn *net.UDPConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var four, six error
	err = raw.Control(func(fd uintptr) {
		four = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, receivePktinfo, 1)
		six = unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO, 1)
	})
	if err != nil || four == nil || six == nil {
		return err
	}
	return errors.Join(four, six)
}

// localOf returns the destination address of a datagram by its control messages.
func localOf(control []byte) (at netip.Addr) {
	for len(control) >= unix.SizeofCmsghdr {
		h, data, rest, err := unix.ParseOneSocketControlMessage(control)
		if err != nil {
			return at
		}
		switch {
		case h.Level == unix.IPPROTO_IP && h.Type == unix.IP_PKTINFO && len(data) >= 12:
			// The first address is the one to answer a broadcast from. Not every system tells it.
			if at = netip.AddrFrom4([4]byte(data[4:8])); at.IsUnspecified() {
				at = netip.AddrFrom4([4]byte(data[8:12]))
			}
		case h.Level == unix.IPPROTO_IPV6 && h.Type == unix.IPV6_PKTINFO && len(data) >= 16 && !at.IsValid():
			at = netip.AddrFrom16([16]byte(data[:16])).Unmap()
		}
		control = rest
	}
	if at.IsMulticast() || at.IsUnspecified() {
		return netip.Addr{}
	}
	return at
}

// appendControl appends a control message.
func appendControl(b []byte, level, kind int32, data []byte) []byte {
	begin := len(b)
	for range unix.CmsgSpace(len(data)) {
		b = append(b, 0)
	}
	h := (*unix.Cmsghdr)(unsafe.Pointer(&b[begin]))
	h.Level, h.Type = level, kind
	h.SetLen(unix.CmsgLen(len(data)))
	copy(b[begin+unix.CmsgLen(0):], data)
	return b
}

// appendSource appends the control message that sets the source address of a datagram.
func appendSource(b []byte, from netip.Addr) []byte {
	if from.Is4() {
		var info [12]byte
		ip := from.As4()
		copy(info[4:], ip[:])
		return appendControl(b, unix.IPPROTO_IP, unix.IP_PKTINFO, info[:])
	}
	var info [20]byte
	ip := from.As16()
	copy(info[:], ip[:])
	return appendControl(b, unix.IPPROTO_IPV6, unix.IPV6_PKTINFO, info[:])
}
