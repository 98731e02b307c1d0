package relay

import (
	"net/netip"

	"tidegate/internal/policy"
	"tidegate/internal/proxyproto"
)

// HeaderLen returns the largest number of bytes that a header takes from a datagram to the server.
func HeaderLen(h policy.Headers) int {
	if h == policy.HeadersOff {
		return 0
	}
	return proxyproto.MaxLen
}

// preamble is the header before the datagrams to one server. A nil preamble adds nothing.
type preamble struct {
	header []byte // empty: no header any more
	when   policy.Headers
}

// newPreamble returns the header for datagrams of a client that came to proxy.
func newPreamble(h policy.Headers, client, proxy netip.AddrPort) *preamble {
	if h == policy.HeadersOff {
		return nil
	}
	header := proxyproto.Header{Client: client, Proxy: proxy}
	if h == policy.HeadersSimple {
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
	if p != nil && p.when == policy.HeadersFirst {
		p.header = nil
	}
}

// heard notes a datagram of the server, and returns it without its header.
func (p *preamble) heard(datagram []byte) []byte {
	if p == nil {
		return datagram
	}
	switch p.when {
	case policy.HeadersUntilReply:
		p.header = nil
	case policy.HeadersSimple:
		return proxyproto.StripSimple(datagram)
	}
	return datagram
}
