package setup

import (
	"tidegate/internal/config"
	"tidegate/internal/netio"
	"tidegate/proxy"
)

// transport is what carries the datagrams of a protocol.
func transport(t config.Transport, protocol string, c *config.Config) proxy.Transport {
	if t != config.TCP {
		return proxy.Transport{}
	}
	d := byName(protocol)
	return proxy.Transport{Stream: true, Prefix: netio.PrefixOf(d.Stream.Prefix), MaxFrame: d.Stream.MaxFrame(c.Options.Of(d))}
}
