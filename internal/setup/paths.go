package setup

import (
	"net/netip"
	"time"

	"tidegate/internal/config"
	"tidegate/proxy"
)

// sources are the addresses that an upstream's servers are spoken to from.
func sources(of []config.IP) (all []netip.Addr) {
	for _, source := range of {
		all = append(all, source.Addr())
	}
	return all
}

// pace is one loop's part of what an upstream's servers take from an address.
func pace(u *config.Upstream, loops int) proxy.Pace {
	if u.MaxPackets == 0 {
		return proxy.Pace{}
	}
	return proxy.Pace{Datagrams: share(u.MaxPackets, loops), Span: time.Duration(u.MaxPacketsPer)}
}
