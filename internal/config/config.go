// Package config reads tidegate.toml into a plain struct, adds defaults, and refuses an unusable configuration. It
// reports all faults at once, each with line, key, value and remedy. It opens no socket, and runs no codec: it
// knows protocols by their descriptors, and shares RakNet's keys and modes with its codec.
//
// Start with Load. Files with the name of a table declare it, and files that begin with check_ hold their rules, which
// validate.go calls. Bounds of values are tags. config.example.toml is the manual of the keys, and docs/configuration
// has them in tables.
package config

import (
	_ "embed"
	"path/filepath"
	"reflect"
	"slices"

	"tidegate/ratelimit"
)

// Config is the whole of tidegate.toml. The toml tag of each field is its key.
type Config struct {
	Log       Log        `toml:"log"`
	Loop      Loop       `toml:"loop"`
	Limits    Limits     `toml:"limits"`
	Rates     []Limit    `toml:"limit"`
	Bans      Bans       `toml:"bans"`
	Kernel    Kernel     `toml:"kernel"`
	Listeners []Listener `toml:"listener"`
	Routes    []Route    `toml:"route"`
	Upstreams []Upstream `toml:"upstream"`
	Access    []Access   `toml:"access"`
	Filters   []Filter   `toml:"filter"`
	Geo       Geo        `toml:"geo"`
	Options   Options    `toml:"*"`
	Record    Record     `toml:"record"`
	Admin     Admin      `toml:"admin"`
	Fleet     Fleet      `toml:"fleet"`

	places *index // position of each key; nil if the Config was not read from a file
}

// Default returns the configuration of an empty file: every option has its default, and there is no listener, route
// or upstream.
func Default() *Config {
	c := &Config{Options: defaultOptions()}
	setDefaults(reflect.ValueOf(c).Elem())
	return c
}

// RestartKeys lists the keys whose values differ in next and take effect only after a restart, in the order of the
// file.
func (c *Config) RestartKeys(next *Config) (keys []string) {
	for _, t := range []struct {
		path string
		a, b any
	}{
		{"log", c.Log, next.Log}, {"loop", c.Loop, next.Loop}, {"record", c.Record, next.Record},
		{"admin", c.Admin, next.Admin}, {"kernel", c.Kernel, next.Kernel}, {"fleet", c.Fleet, next.Fleet},
	} {
		a, b := reflect.ValueOf(t.a), reflect.ValueOf(t.b)
		for i := range a.NumField() {
			if !reflect.DeepEqual(a.Field(i).Interface(), b.Field(i).Interface()) {
				keys = append(keys, child(t.path, a.Type().Field(i).Tag.Get("toml")))
			}
		}
	}
	if c.Bans.File != next.Bans.File {
		keys = append(keys, "bans.file")
	}
	return keys
}

// Schema is the JSON schema of a configuration file, for editors. "make reference" writes it: the comments of
// config.example.toml are its descriptions.
//
//go:embed schema.json
var Schema string

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
