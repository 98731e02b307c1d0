package config

import (
	"slices"
	"strings"
)

// Transport carries the datagrams of a listener or an upstream.
type Transport string

// Transports.
const (
	UDP Transport = "udp"
	TCP Transport = "tcp" // each datagram is a frame, as in Riptide's own TCP transport
)

// Choices lists the words of the configuration.
func (Transport) Choices() []string { return choices(UDP, TCP) }

// listenTransport checks that a listener's protocols support its transport.
func (v *validator) listenTransport(path string, l Listener) {
	v.transport(child(path, "transport"), l.Transport, l.Protocols)
	if l.Transport == TCP && len(l.Protocols) > 1 {
		v.fault(child(path, "protocols"), l.Protocols,
			"one protocol: over TCP, each protocol needs its own listener, because they frame messages differently")
	}
}

// transport checks that protocols support a transport. Unknown names are reported elsewhere.
func (v *validator) transport(key string, t Transport, protocols []string) {
	if t != TCP {
		return
	}
	var without []string
	for _, name := range protocols {
		if known, ok := v.known[name]; ok && !known.Stream {
			without = append(without, name)
		}
	}
	if len(without) > 0 {
		v.fault(key, t, `"udp", or a protocol that supports TCP (`+v.streaming()+"): "+strings.Join(without,
			", ")+" does not")
	}
}

// streaming returns the names of the protocols that support TCP.
func (v *validator) streaming() string {
	var names []string
	for name, traits := range v.known {
		if traits.Stream {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return enumerate(names)
}
