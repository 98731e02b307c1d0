package raknet

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"tidegate/codec"
)

var errAddress = fmt.Errorf("raknet: address cut short: %w", codec.ErrMalformed)

// Sizes and type bytes of an address on the wire (docs/protocols/raknet.md#primitives):
//
//	v4  0      4
//	    1..4   the address, each bit inverted
//	    5..6   port, big-endian
//
//	v6  0      6 (stock RakNet takes anything but 4 for v6)
//	    1..2   address family in the order and with the number of the sender's platform: ignored
//	    3..4   port, big-endian
//	    5..8   flow information, ignored
//	    9..24  the address
//	    25..28 scope, ignored
const (
	address4Type = 4
	address4Size = 7
	address6Type = 6
	address6Size = 29
)

// inet6Windows is AF_INET6 as a Windows sender writes it; most games run there, and no reader is known to look.
const inet6Windows = 23

// parseAddress reads one address. The unassigned address is read as 0.0.0.0:0.
func parseAddress(b []byte) (addr netip.AddrPort, rest []byte, err error) {
	if len(b) < address4Size {
		return netip.AddrPort{}, nil, errAddress
	}
	if b[0] == address4Type {
		ip := netip.AddrFrom4([4]byte{^b[1], ^b[2], ^b[3], ^b[4]})
		return netip.AddrPortFrom(ip, binary.BigEndian.Uint16(b[5:])), b[address4Size:], nil
	}
	if len(b) < address6Size {
		return netip.AddrPort{}, nil, errAddress
	}
	ip := netip.AddrFrom16([16]byte(b[9:]))
	return netip.AddrPortFrom(ip, binary.BigEndian.Uint16(b[3:])), b[address6Size:], nil
}

// appendAddress writes an address; the zero AddrPort is written as unassigned. An IPv4 address in IPv6's clothes is
// written as IPv4, since a peer built without IPv6 cannot read the longer form.
func appendAddress(b []byte, addr netip.AddrPort) []byte {
	ip := addr.Addr().Unmap()
	if ip.Is6() {
		return appendAddress6(b, ip.As16(), addr.Port())
	}
	var v4 [4]byte
	if ip.Is4() {
		v4 = ip.As4()
	}
	b = append(b, address4Type, ^v4[0], ^v4[1], ^v4[2], ^v4[3])
	return binary.BigEndian.AppendUint16(b, addr.Port())
}

func appendAddress6(b []byte, ip [16]byte, port uint16) []byte {
	b = append(b, address6Type)
	b = binary.LittleEndian.AppendUint16(b, inet6Windows)
	b = binary.BigEndian.AppendUint16(b, port)
	b = append(b, 0, 0, 0, 0)
	b = append(b, ip[:]...)
	return append(b, 0, 0, 0, 0)
}
