package main

import (
	"errors"
	"fmt"

	"tidegate/config"
	"tidegate/netio"
)

// localSources reports every source_prefix that this machine could not use as it is now, or nil.
func localSources(c *config.Config) error {
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
