package netio

import (
	"encoding/binary"
	"net"
	"net/netip"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

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
