package setup

import (
	"tidegate/internal/config"
	"tidegate/internal/netio"
	"tidegate/proxy"
)

// prefixes are how the protocols that have a TCP transport frame their messages there: 2 bytes in Riptide 2.0, 4 since 2.1.
var prefixes = map[string]netio.Prefix{"riptide-2.0": netio.LengthU16LE, "riptide-2.2": netio.LengthI32LE}

// riptideOverhead is what Riptide's largest message has beside the largest payload, in bytes.
const riptideOverhead = 6

// transport is what carries the datagrams of a protocol.
func transport(t config.Transport, protocol string, c *config.Config) proxy.Transport {
	if t != config.TCP {
		return proxy.Transport{}
	}
	return proxy.Transport{Stream: true, Prefix: prefixes[protocol], MaxFrame: c.Riptide.MaxPayload + riptideOverhead}
}

// probes reports whether a protocol's client side searches for the path's MTU.
func probes(protocol string) bool { return protocol == "raknet" || protocol == "bedrock" }

// streams reports whether a protocol has a TCP transport.
func streams(protocol string) bool {
	_, ok := prefixes[protocol]
	return ok
}
