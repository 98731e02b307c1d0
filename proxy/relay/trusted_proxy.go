package relay

import (
	"errors"
	"net/netip"
	"slices"

	"tidegate/internal/policy"
	"tidegate/internal/proxyproto"
	"tidegate/proxy/relay/admission"
	"tidegate/proxy/stats"
)

// errNoHeader reports a trusted proxy's datagram that names no client, when no earlier one did.
var errNoHeader = errors.New("no PROXY protocol header, and none before it")

// trustedProxy is a trusted proxy, with the header that names one client.
type trustedProxy struct {
	addr   netip.AddrPort // the proxy's address, for answers; invalid: there is no such proxy
	header proxyproto.Header
}

// to returns the address for datagrams to a client. A nil trustedProxy means that the client comes directly.
func (f *trustedProxy) to(client netip.AddrPort) netip.AddrPort {
	if f == nil || !f.addr.IsValid() {
		return client
	}
	return f.addr
}

// begin appends the header of a datagram to the client.
func (f *trustedProxy) begin(b []byte) []byte {
	if f.simple() {
		return f.header.Append(b)
	}
	return b
}

// headerLen returns the number of header bytes in a datagram to the client.
func (f *trustedProxy) headerLen() int {
	if f.simple() {
		return f.header.Len()
	}
	return 0
}

// simple reports whether answers need a header too.
func (f *trustedProxy) simple() bool {
	return f != nil && f.addr.IsValid() && f.header.Format == proxyproto.Simple
}

// trustedProxies are the trusted proxies of a listener.
type trustedProxies struct {
	trusted []netip.Prefix
	at      trustedProxy // the trusted proxy of the present datagram
	// Most proxies send a header in their first datagram only. recent and older remember these headers by the proxies'
	// addresses. The field most bounds each of them. A full recent becomes older, and the entries of older are
	// forgotten.
	recent, older map[netip.AddrPort]proxyproto.Header
	most          int
}

// newTrustedProxies returns the trusted proxies of a listener, or nil if it has none. old has the state before a
// reload.
func newTrustedProxies(trusted []netip.Prefix, most int, old *trustedProxies) *trustedProxies {
	if len(trusted) == 0 {
		return nil
	}
	f := &trustedProxies{trusted: trusted, most: most, recent: make(map[netip.AddrPort]proxyproto.Header)}
	if old != nil {
		f.recent, f.older = old.recent, old.older
	}
	return f
}

// unwrap finds the client of a datagram and removes the header. The fault is one of the header.
func (f *trustedProxies) unwrap(from netip.AddrPort, datagram []byte) (netip.AddrPort, []byte, admission.Fault) {
	f.at = trustedProxy{}
	if !f.trusts(from.Addr()) {
		if proxyproto.HasV2(datagram) {
			return from, nil, admission.Fault{Drops: true, Why: stats.DropUntrusted}
		}
		return from, datagram, admission.Fault{}
	}
	h, rest, err := proxyproto.Parse(datagram)
	if errors.Is(err, proxyproto.ErrNone) {
		var ok bool
		if h, ok = f.recall(from); !ok {
			return from, nil, admission.Fault{Drops: true, Why: stats.DropUntold, Err: errNoHeader}
		}
	} else if err != nil {
		return from, nil, admission.Fault{Drops: true, Why: stats.DropMalformed, Err: err}
	} else {
		f.remember(from, h)
	}
	if h.Local {
		return from, rest, admission.Fault{}
	}
	f.at = trustedProxy{from, h}
	return h.Client, rest, admission.Fault{}
}

func (f *trustedProxies) trusts(addr netip.Addr) bool {
	return slices.ContainsFunc(f.trusted, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// recall finds the last header from a proxy's address.
func (f *trustedProxies) recall(from netip.AddrPort) (proxyproto.Header, bool) {
	if h, ok := f.recent[from]; ok {
		return h, true
	}
	h, ok := f.older[from]
	if ok {
		f.remember(from, h)
	}
	return h, ok
}

func (f *trustedProxies) remember(from netip.AddrPort, h proxyproto.Header) {
	if old, ok := f.recent[from]; ok && old == h {
		return
	}
	if len(f.recent) >= f.most {
		f.recent, f.older = make(map[netip.AddrPort]proxyproto.Header), f.recent
	}
	f.recent[from] = h
}

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
