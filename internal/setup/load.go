// Package setup turns a configuration into the parts of a proxy: proxy.Settings with listeners, routes and upstreams,
// protocols by their names, and rules with the files that they read. It also gives config the Traits of each
// protocol. It runs nothing.
//
// Start with Load, Settings and the function known.
package setup

import (
	"tidegate/internal/config"
	"tidegate/internal/netio"
)

// Load reads a configuration file and checks it for this machine.
func Load(path string) (c *config.Config, warnings []config.Fault, err error) {
	return checkHere(config.Load(path, Traits()))
}

// Parse is Load for a text in memory. name is the file name in faults.
func Parse(name string, text []byte) (c *config.Config, warnings []config.Fault, err error) {
	return checkHere(config.Parse(name, text, Traits()))
}

// checkHere checks a configuration for this machine.
func checkHere(c *config.Config, warnings []config.Fault, err error) (*config.Config, []config.Fault, error) {
	if err != nil {
		return nil, nil, err
	}
	own, _ := netio.OwnAddresses() // none where the system does not list them
	if err := c.CheckSelfForwarding(own); err != nil {
		return nil, nil, err
	}
	return c, warnings, nil
}
