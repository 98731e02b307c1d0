package config

import (
	"path/filepath"
	"reflect"
	"slices"

	"tidegate/ratelimit"
)

// Path returns the path of a file that the configuration names. A relative path starts at the folder of the
// configuration file.
func (c *Config) Path(file string) string {
	if file == "" || filepath.IsAbs(file) {
		return file
	}
	return filepath.Join(filepath.Dir(c.places.name()), file)
}

// EffectiveLimits returns the limits in force: the stated ones and the defaults that they do not replace.
func (c *Config) EffectiveLimits() []Limit {
	var all []Limit
	for _, l := range defaultLimits {
		replaces := func(stated Limit) bool { return stated.Of == l.Of && stated.Per == l.Per }
		if !slices.ContainsFunc(c.Rates, replaces) {
			all = append(all, l)
		}
	}
	for _, l := range c.Rates {
		if l.Burst == 0 {
			l.Burst = l.Rate
		}
		if !l.Verdict.Is(limitVerdict(ratelimit.Pass)) {
			all = append(all, l)
		}
	}
	return all
}

// MemoryBound returns the most memory in bytes that the limits let peers take, without the kernel's buffers.
func (c *Config) MemoryBound() int64 {
	bound := doorsCost + int64(c.Limits.HeldBytes) + int64(c.Limits.Sessions)*SessionCost
	if slices.ContainsFunc(c.Listeners, func(l Listener) bool { return slices.Contains(l.Protocols, "nethernet") }) {
		bound += joinsCost
	}
	for _, l := range c.EffectiveLimits() {
		if l.Of.Is(ratelimit.QueuedBytes) && l.Per.Is(ratelimit.Overall) {
			bound += int64(l.Rate)
		}
	}
	return bound
}

// LargestMessage returns the largest max_message of all protocols.
func (c *Config) LargestMessage() Size {
	var most Size
	all := []Options{c.Options}
	for _, of := range c.owners {
		all = append(all, *of.own())
	}
	for _, options := range all {
		for _, table := range options {
			if value, ok := fieldOf(reflect.ValueOf(table).Elem(), "max_message"); ok {
				most = max(most, Size(whole(value)))
			}
		}
	}
	return most
}

// Unrouted returns the upstreams that no listener's route reaches.
func (c *Config) Unrouted() (all []*Upstream) {
	routed, reached := make(map[string]bool), make(map[string]bool)
	for i := range c.Listeners {
		routed[c.Listeners[i].Route] = true
	}
	for i := range c.Routes {
		reached[c.Routes[i].Upstream] = reached[c.Routes[i].Upstream] || routed[c.Routes[i].Name]
	}
	for i := range c.Upstreams {
		if u := &c.Upstreams[i]; !reached[u.Name] {
			all = append(all, u)
		}
	}
	return all
}
