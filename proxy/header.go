package proxy

import (
	"net/netip"

	"tidegate/internal/proxyproto"
)

// Headers says which datagrams towards a server begin with a PROXY protocol header, which tells whose they are.
type Headers uint8

// Headers. Servers differ in what they take: those that strip the first datagram's take a second one for the game's.
const (
	HeadersOff        Headers = iota
	HeadersFirst              // that of a session's first datagram, which may be lost
	HeadersUntilReply         // those of all datagrams until the server has said something
	HeadersEvery              // those of all datagrams
	HeadersSimple             // those of all datagrams, in the Simple Proxy Protocol; the server's may have it too
)

// Len is how many bytes a header takes at most from datagrams towards a server.
func (h Headers) Len() int {
	if h == HeadersOff {
		return 0
	}
	return proxyproto.MaxLen
}

// preamble is the beginning of datagrams towards one server. A nil preamble is none.
type preamble struct {
	header []byte // empty: no more
	when   Headers
}

// preamble says that datagrams are those of a client that came to proxy.
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

// begin begins a datagram.
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

// heard notes a datagram of the server and returns what the server said in it.
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
