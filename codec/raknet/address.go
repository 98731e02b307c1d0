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
//	    1..2   address family in the order and with the number of the sender's platform
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

// family is the first two bytes of a sockaddr_in6, little-endian. Linux writes 10, Windows 23, macOS and BSD a length
// and 30 or 28. A stock peer copies them into its own sockaddr. If they are another platform's, the peer prints and
// compares the address wrongly. So each peer gets the family that it uses itself.
type family uint16

// unknownFamily is the family of an IPv4 address, and of a peer that has written no IPv6 address yet. It is written as
// Windows' family, since most games run there.
const (
	unknownFamily family = 0
	familyWindows family = 23
)

// address is an address as in a message.
type address struct {
	netip.AddrPort
	family family // family of an IPv6 address
}

// parseAddress reads one address. It returns the unassigned address as 0.0.0.0:0.
func parseAddress(b []byte) (a address, rest []byte, err error) {
	if len(b) < address4Size {
		return address{}, nil, errAddress
	}
	if b[0] == address4Type {
		ip := netip.AddrFrom4([4]byte{^b[1], ^b[2], ^b[3], ^b[4]})
		return address{AddrPort: netip.AddrPortFrom(ip, binary.BigEndian.Uint16(b[5:]))}, b[address4Size:], nil
	}
	if len(b) < address6Size {
		return address{}, nil, errAddress
	}
	a.AddrPort = netip.AddrPortFrom(netip.AddrFrom16([16]byte(b[9:])), binary.BigEndian.Uint16(b[3:]))
	a.family = family(binary.LittleEndian.Uint16(b[1:]))
	return a, b[address6Size:], nil
}

// appendAddress appends an address. The zero address is written as unassigned. An IPv4-mapped IPv6 address is written
// as IPv4, since a peer without IPv6 support cannot read the longer form.
func appendAddress(b []byte, addr address) []byte {
	ip := addr.Addr().Unmap()
	if ip.Is6() {
		return appendAddress6(b, ip.As16(), addr.Port(), addr.family)
	}
	var v4 [4]byte
	if ip.Is4() {
		v4 = ip.As4()
	}
	b = append(b, address4Type, ^v4[0], ^v4[1], ^v4[2], ^v4[3])
	return binary.BigEndian.AppendUint16(b, addr.Port())
}

func appendAddress6(b []byte, ip [16]byte, port uint16, f family) []byte {
	if f == unknownFamily {
		f = familyWindows
	}
	b = append(b, address6Type)
	b = binary.LittleEndian.AppendUint16(b, uint16(f))
	b = binary.BigEndian.AppendUint16(b, port)
	b = append(b, 0, 0, 0, 0)
	b = append(b, ip[:]...)
	return append(b, 0, 0, 0, 0)
}
