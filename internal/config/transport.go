package config

import (
	"slices"
	"strings"
)

// Transport is what carries a listener's or an upstream's datagrams.
type Transport string

// Transports.
const (
	UDP Transport = "udp"
	TCP Transport = "tcp" // each datagram as a frame, as Riptide's own TCP transport does
)

// Choices lists the values in the configuration.
func (Transport) Choices() []string { return words(UDP, TCP) }

// listenTransport checks that a listener's protocols can do with its transport.
func (v *validator) listenTransport(path string, l Listener) {
	v.transport(child(path, "transport"), l.Transport, l.Protocols)
	if l.Transport == TCP && len(l.Protocols) > 1 {
		v.fault(child(path, "protocols"), l.Protocols,
			"one protocol over tcp, and a listener for each: they frame their messages differently")
	}
}

// transport checks that protocols have a transport. Names that will not do are reported elsewhere.
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
		v.fault(key, t, `"udp", or a protocol that has TCP (`+v.streaming()+"): "+strings.Join(without, ", ")+" has not")
	}
}

// streaming names the protocols that have TCP.
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
