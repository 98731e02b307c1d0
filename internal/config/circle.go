package config

import (
	"net/netip"
	"slices"
)

// CheckSelfForwarding finds servers that are the configuration's own listeners, given the addresses of the machine.
// Datagrams would loop forever. Load already finds the cases that need no knowledge of the machine. The error is nil
// or Faults.
func (c *Config) CheckSelfForwarding(own []netip.Addr) error {
	v := validator{Config: c, report: newReport(c.places)}
	for i, u := range c.Upstreams {
		for j, server := range u.Servers {
			if !slices.Contains(own, server.Address.Addr().Unmap()) {
				continue
			}
			for k, l := range c.Listeners {
				if l.Transport == u.Transport && overlap(server.Address, l.Address) {
					v.fault(item(child(item("upstream", i), "servers"), j), server, "a game server; this address is the "+
						"machine's own, so its datagrams reach "+v.where(item("listener", k))+" of Tidegate itself")
				}
			}
		}
	}
	_, err := v.result()
	return err
}
