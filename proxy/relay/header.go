package relay

import (
	"net/netip"

	"tidegate/internal/enum"
	"tidegate/internal/proxyproto"
)

// Headers chooses the datagrams to a server that begin with a PROXY protocol header. The header names the client.
type Headers uint8

// Choices of Headers. Servers differ: a server that strips the header of the first datagram only takes a second
// header for the game's data.
const (
	HeadersOff        Headers = iota
	HeadersFirst              // on a session's first datagram, which may be lost
	HeadersUntilReply         // on all datagrams until the server has answered
	HeadersEvery              // on all datagrams
	HeadersSimple             // on all datagrams, in the Simple Proxy Protocol; the server may use it too
)

// Len returns the largest number of bytes that a header takes from a datagram to the server.
func (h Headers) Len() int {
	if h == HeadersOff {
		return 0
	}
	return proxyproto.MaxLen
}

// preamble is the header before the datagrams to one server. A nil preamble adds nothing.
type preamble struct {
	header []byte // empty: no header any more
	when   Headers
}

// preamble returns the header for datagrams of a client that came to proxy.
func (h Headers) preamble(client, proxy netip.AddrPort) *preamble {
	if h == HeadersOff {
		return nil
	}
	header := proxyproto.Header{Client: client, Proxy: proxy}
	if h == HeadersSimple {
		header.Format = proxyproto.Simple
	}
	return &preamble{header.Append(make([]byte, 0, header.Len())), h}
}

// begin appends the header, before the datagram itself.
func (p *preamble) begin(b []byte) []byte {
	if p == nil {
		return b
	}
	return append(b, p.header...)
}

// sent notes that a datagram was sent.
func (p *preamble) sent() {
	if p != nil && p.when == HeadersFirst {
		p.header = nil
	}
}

// heard notes a datagram of the server, and returns it without its header.
func (p *preamble) heard(datagram []byte) []byte {
	if p == nil {
		return datagram
	}
	switch p.when {
	case HeadersUntilReply:
		p.header = nil
	case HeadersSimple:
		return proxyproto.StripSimple(datagram)
	}
	return datagram
}

// headersNames are as in the configuration.
var headersNames = []string{"off", "first", "until_reply", "every", "spp"}

// UnmarshalText reads the name of a Headers value.
func (h *Headers) UnmarshalText(text []byte) error { return enum.Parse(headersNames, text, h) }
