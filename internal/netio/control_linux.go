package netio

import (
	"encoding/binary"
	"net/netip"
	"unsafe"

	"golang.org/x/sys/unix"
)

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
	return appendControl(b, unix.SOL_UDP, unix.UDP_SEGMENT, data[:])
}

// metadata is the kernel's information about a message, apart from its sender.
type metadata struct {
	size int        // of each datagram in the message; 0: there is only one
	at   netip.Addr // destination address, if the socket asks for it
}
