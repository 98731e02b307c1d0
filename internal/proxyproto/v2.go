package proxyproto

import (
	"encoding/binary"
	"net/netip"
)

var be = binary.BigEndian

// A header of version 2 (https://www.haproxy.org/download/3.2/doc/proxy-protocol.txt, section 2.2):
//
//	0..11   signature
//	12      version 2 in the high bits; command in the low: 0 LOCAL, 1 PROXY
//	13      family in the high bits: 0 none, 1 IPv4, 2 IPv6, 3 Unix; transport in the low: 0 none, 1 stream, 2 datagram
//	14..15  length of the rest of the header
//	16..    client's address, proxy's address, client's port, proxy's port; then extensions
const (
	signature = "\r\n\r\n\x00\r\nQUIT\n"
	v2Len     = 16 // up to the addresses
	v2IPv4    = 12 // addresses
	v2IPv6    = 36

	version2     = 0x20
	commandLocal = 0
	commandProxy = 1

	familyNone  = 0
	familyIPv4  = 1
	familyIPv6  = 2
	datagramUDP = 2
)

// HasV2 reports whether a datagram starts with the signature of version 2. No other protocol starts so by chance.
func HasV2(datagram []byte) bool {
	return len(datagram) >= len(signature) && string(datagram[:len(signature)]) == signature
}

func (h *Header) appendV2(b []byte) []byte {
	b = append(b, signature...)
	if h.Local {
		return append(b, version2|commandLocal, familyNone, 0, 0)
	}
	if h.is4() {
		b = append(b, version2|commandProxy, familyIPv4<<4|datagramUDP, 0, v2IPv4)
		client, proxy := h.Client.Addr().Unmap().As4(), h.Proxy.Addr().Unmap().As4()
		b = append(append(b, client[:]...), proxy[:]...)
	} else {
		b = append(b, version2|commandProxy, familyIPv6<<4|datagramUDP, 0, v2IPv6)
		b = appendAddrs16(b, h.Client.Addr(), h.Proxy.Addr())
	}
	b = be.AppendUint16(b, h.Client.Port())
	return be.AppendUint16(b, h.Proxy.Port())
}

// appendAddrs16 appends two addresses of 16 bytes. IPv4 addresses are mapped into IPv6.
func appendAddrs16(b []byte, one, other netip.Addr) []byte {
	x, y := one.As16(), other.As16()
	return append(append(b, x[:]...), y[:]...)
}

// parseV2 reads a datagram that starts with the signature. It ignores the transport, since some senders set stream.
func parseV2(d []byte) (h Header, rest []byte, err error) {
	if len(d) < v2Len || d[12]&0xf0 != version2 || d[12]&0x0f > commandProxy {
		return Header{}, nil, ErrMalformed
	}
	end := v2Len + int(be.Uint16(d[14:]))
	if end > len(d) {
		return Header{}, nil, ErrMalformed
	}
	addrs, rest := d[v2Len:end], d[end:]
	family := d[13] >> 4
	switch {
	case d[12]&0x0f == commandLocal || family == familyNone:
		return Header{Local: true}, rest, nil
	case family == familyIPv4 && len(addrs) >= v2IPv4:
		h.Client, h.Proxy = addrPort(addrs[0:4], addrs[8:]), addrPort(addrs[4:8], addrs[10:])
	case family == familyIPv6 && len(addrs) >= v2IPv6:
		h.Client, h.Proxy = addrPort(addrs[0:16], addrs[32:]), addrPort(addrs[16:32], addrs[34:])
	case family == familyIPv4 || family == familyIPv6:
		return Header{}, nil, ErrMalformed
	default:
		return Header{}, nil, ErrFamily
	}
	return h, rest, nil
}
