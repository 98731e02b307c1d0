package config

import (
	"fmt"

	"tidegate/internal/protocols"
)

// ProxyProtocol says which datagrams to a server begin with a header that names the client.
type ProxyProtocol string

// Placements of the header.
const (
	HeadersOff        ProxyProtocol = "off"
	HeadersFirst      ProxyProtocol = "first"       // the first datagram of a session
	HeadersUntilReply ProxyProtocol = "until_reply" // all until the server has answered
	HeadersEvery      ProxyProtocol = "every"
	HeadersSimple     ProxyProtocol = "spp" // all, in Cloudflare's Simple Proxy Protocol
)

// Choices lists the words of the configuration.
func (ProxyProtocol) Choices() []string {
	return choices(HeadersOff, HeadersFirst, HeadersUntilReply, HeadersEvery, HeadersSimple)
}

// MaxHeader is the length in bytes of the longest header: PROXY protocol v2 with IPv6 addresses.
const MaxHeader = 52

// listenProxies checks the trusted proxies of a listener.
func (v *validator) listenProxies(path string, l Listener) {
	key := child(path, "proxy_protocol_from")
	if l.Transport == TCP && len(l.ProxyProtocolFrom) > 0 {
		v.fault(key, nil, `an empty list, or transport = "udp": TCP has no datagrams to carry the headers`)
	}
	for i, n := range l.ProxyProtocolFrom {
		if n.IsValid() && n.Bits() == 0 {
			v.fault(item(key, i), n, "the networks of your own proxies: a trusted proxy can claim any client address")
		}
	}
}

// proxyProtocol checks the headers towards an upstream's servers.
func (v *validator) proxyProtocol(path string, u Upstream) {
	key := child(path, "proxy_protocol")
	switch {
	case u.ProxyProtocol == HeadersOff:
	case u.Transport == TCP:
		v.fault(key, u.ProxyProtocol, `"off", or transport = "udp": TCP has no datagrams to carry the headers`)
	default:
		d := protocols.Find(u.Protocol)
		if d == nil {
			return
		}
		if option, most := v.Options.headroom(d, MaxHeader); option != "" {
			v.fault(key, u.ProxyProtocol, fmt.Sprintf(`"off", or %s of at most %d: larger datagrams have no room for a header`,
				option, most))
		}
	}
}
