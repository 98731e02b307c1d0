// Package proxyproto writes and reads the headers that proxies put before a client's datagrams to name its address:
// version 2 of HAProxy's PROXY protocol over UDP, and Cloudflare's Simple Proxy Protocol. It knows bytes and addresses.
// The caller decides which datagrams have a header and which proxies are trusted.
//
// Start with Header, which serves both formats, and Parse.
package proxyproto

import (
	"encoding/binary"
	"errors"
	"net/netip"
)

// Errors of Parse.
var (
	ErrNone      = errors.New("no PROXY protocol header")         // the datagram starts with something else
	ErrMalformed = errors.New("malformed PROXY protocol header")  // the start is valid, the rest is not
	ErrFamily    = errors.New("PROXY protocol header without IP") // another address family, such as Unix
)

// Format is a header format.
type Format uint8

// Formats.
const (
	V2     Format = iota // PROXY protocol, version 2
	Simple               // Simple Proxy Protocol
)

// MaxLen is the length in bytes of the longest header that Append writes.
const MaxLen = v2Len + v2IPv6

// Header says that Client sent a datagram to Proxy.
type Header struct {
	Format Format
	// Local is set for a health check by the proxy itself. The addresses are then unset.
	Local  bool
	Client netip.AddrPort
	Proxy  netip.AddrPort // the address at which the client reached the proxy
}

// Append appends the header to b, at most MaxLen bytes.
func (h *Header) Append(b []byte) []byte {
	if h.Format == Simple {
		b = be.AppendUint16(b, simpleMagic)
		b = appendAddrs16(b, h.Client.Addr(), h.Proxy.Addr())
		b = be.AppendUint16(b, h.Client.Port())
		return be.AppendUint16(b, h.Proxy.Port())
	}
	return h.appendV2(b)
}

// Len returns the number of bytes that Append appends.
func (h *Header) Len() int {
	switch {
	case h.Format == Simple:
		return simpleLen
	case h.Local:
		return v2Len
	case h.is4():
		return v2Len + v2IPv4
	}
	return v2Len + v2IPv6
}

// is4 reports whether both addresses are IPv4.
func (h *Header) is4() bool { return h.Client.Addr().Unmap().Is4() && h.Proxy.Addr().Unmap().Is4() }

// Parse reads the header at the start of a datagram. The rest aliases the datagram.
func Parse(datagram []byte) (h Header, rest []byte, err error) {
	switch d := datagram; {
	case HasV2(d):
		return parseV2(d)
	case hasSimple(d):
		h = Header{Format: Simple, Client: addrPort(d[2:18], d[34:]), Proxy: addrPort(d[18:34], d[36:])}
		return h, d[simpleLen:], nil
	}
	return Header{}, datagram, ErrNone
}

// StripSimple removes the header from an answer, if it has one in the Simple format.
func StripSimple(datagram []byte) []byte {
	if hasSimple(datagram) {
		return datagram[simpleLen:]
	}
	return datagram
}

func addrPort(ip, port []byte) netip.AddrPort {
	addr, _ := netip.AddrFromSlice(ip) // 4 or 16 bytes
	return netip.AddrPortFrom(addr.Unmap(), be.Uint16(port))
}

// A Simple Proxy Protocol header, as described at
// https://developers.cloudflare.com/spectrum/reference/simple-proxy-protocol-header/. IPv4 addresses are mapped into
// IPv6. Answers to the proxy carry the same header.
//
//	0..1    magic number
//	2..17   client's address
//	18..33  proxy's address
//	34..35  client's port
//	36..37  proxy's port
const (
	simpleMagic = 0x56ec
	simpleLen   = 38
)

func hasSimple(d []byte) bool { return len(d) >= simpleLen && be.Uint16(d) == simpleMagic }

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
