package setup

import (
	"net"
	"net/netip"

	"tidegate/internal/config"
)

// Load reads a configuration file for this machine.
func Load(path string) (c *config.Config, warnings []config.Fault, err error) {
	if c, warnings, err = config.Load(path, Traits()); err != nil {
		return nil, nil, err
	}
	if err := c.CheckSelfForwarding(ownAddresses()); err != nil {
		return nil, nil, err
	}
	return c, warnings, nil
}

// ownAddresses are those of the machine's interfaces; none where the system does not tell.
func ownAddresses() []netip.Addr {
	networks, err := net.InterfaceAddrs()
	if err != nil {
		return nil
	}
	var own []netip.Addr
	for _, network := range networks {
		if ip, ok := network.(*net.IPNet); ok {
			if addr, ok := netip.AddrFromSlice(ip.IP); ok {
				own = append(own, addr.Unmap())
			}
		}
	}
	return own
}
