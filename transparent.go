package main

import (
	"fmt"

	"tidegate/config"
	"tidegate/netio"
)

// mayBeTransparent reports why an upstream's sessions cannot have the players' own addresses on this machine.
func mayBeTransparent(c *config.Config) error {
	for _, u := range c.Upstreams {
		if !u.Transparent {
			continue
		}
		if err := netio.CheckTransparent(); err != nil {
			return fmt.Errorf("upstream %s: transparent: %w", u.Name, err)
		}
	}
	return nil
}
