// Package proxyproto writes and reads what proxies put in front of a client's datagrams to say whose they are: version 2 of
// HAProxy's PROXY protocol over UDP, and Cloudflare's Simple Proxy Protocol. It knows bytes and addresses; which datagrams
// have a header, and who is believed, is for its callers.
//
// Start with Header, which is both, and Parse.
package proxyproto

import (
	"errors"
	"net/netip"
)

// Errors of Parse.
var (
	ErrNone      = errors.New("no PROXY protocol header")         // the datagram begins with something else
	ErrMalformed = errors.New("malformed PROXY protocol header")  // it begins as one, and does not go on as one
	ErrFamily    = errors.New("PROXY protocol header without IP") // of another family of addresses, such as Unix
)

// Format is a way to write a header.
type Format uint8

// Formats.
const (
	V2     Format = iota // PROXY protocol, version 2
	Simple               // Simple Proxy Protocol
)

// MaxLen is the length in bytes of the longest header that is written.
const MaxLen = v2Len + v2IPv6

// Header says that a datagram was sent by Client to Proxy.
type Header struct {
	Format Format
	// Local is set where the proxy speaks for itself, to see whether we live say. There are no addresses then.
	Local  bool
	Client netip.AddrPort
	Proxy  netip.AddrPort // at which the client reached the proxy
}

// Append appends the header to b, at most MaxLen bytes.
func (h *Header) Append(b []byte) []byte {
	if h.Format == Simple {
		return h.appendSimple(b)
	}
	return h.appendV2(b)
}

// Len is how many bytes Append appends.
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

// is4 reports whether both addresses are of IPv4.
func (h *Header) is4() bool { return h.Client.Addr().Unmap().Is4() && h.Proxy.Addr().Unmap().Is4() }

// Parse reads the header that a datagram begins with. The rest aliases the datagram.
func Parse(datagram []byte) (h Header, rest []byte, err error) {
	switch {
	case HasV2(datagram):
		return parseV2(datagram)
	case hasSimple(datagram):
		h, rest = parseSimple(datagram)
		return h, rest, nil
	}
	return Header{}, datagram, ErrNone
}

// StripSimple cuts the header off an answer to a datagram that had one in the Simple format, where the answer has one.
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
