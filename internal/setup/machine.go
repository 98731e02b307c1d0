package setup

import (
	"errors"
	"fmt"

	"tidegate/internal/config"
	"tidegate/internal/netio"
)

// CheckMachine reports every source_prefix and transparent upstream that this machine could not have as it is now, or nil.
func CheckMachine(c *config.Config) error {
	var errs []error
	for _, u := range c.Upstreams {
		if u.SourcePrefix == "" {
			continue
		}
		if err := netio.CheckSources(u.SourcePrefix.Prefix()); err != nil {
			errs = append(errs, fmt.Errorf("upstream %s: source_prefix: %w", u.Name, err))
		}
	}
	return errors.Join(append(errs, mayBeTransparent(c))...)
}

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
