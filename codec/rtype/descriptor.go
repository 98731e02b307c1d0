package rtype

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"tidegate/codec"
	"tidegate/internal/registry"
	"tidegate/internal/units"
)

// The dialects. Any finds out the peer's dialect, and FromDocument is that of the protocol document. The game's own
// dialects have entities of 16 or 32 bits, or, in the last game, a handshake of its own.
var (
	Any          = descriptor(Auto)
	FromDocument = descriptor(Document)
	With16       = descriptor(Game16)
	With32       = descriptor(Game32)
	Last         = descriptor(GameLast)
)

func descriptor(dialect Dialect) registry.Descriptor {
	d := registry.Descriptor{
		Name:     names[dialect],
		Evidence: registry.ByShape,
		Table:    "rtype",
		Options:  func() any { return defaultSettings() },
		New: func(options any, use registry.Use) codec.Protocol {
			return New(options.(*Settings).with(dialect, use))
		},
	}
	d.Describe = func(m *registry.Memory) registry.Describe {
		d := NewDescriberOf(dialect)
		d.memory = m
		return d.Describe
	}
	d.Inputs = inputs[dialect]
	return d
}

// inputs names the possible inputs of a dialect's clients; nil: any. docs/protocols/rtype.md#dialects
var inputs = [...][]string{
	Auto: nil, Document: {"keys"}, Game16: {"keys", "updates"}, Game32: {"updates"}, GameLast: {"updates"},
}

// Settings are the options in the configuration, of every dialect.
type Settings struct {
	Components    map[string]int `toml:"components"`                       // bytes of data, by name
	PingInterval  units.Duration `toml:"ping_interval" min:"0s" max:"5m"`  // 0: never
	IdleTimeout   units.Duration `toml:"idle_timeout" min:"1s" max:"1h"`   // of clients
	ServerTimeout units.Duration `toml:"server_timeout" min:"1s" max:"1h"` // of servers
	Refresh       units.Duration `toml:"refresh" min:"0s" max:"1h"`        // 0: never
}

func defaultSettings() *Settings {
	return &Settings{
		Components:    map[string]int{},
		IdleTimeout:   units.Duration(defaultIdleTimeout),
		ServerTimeout: units.Duration(defaultServerTimeout),
	}
}

// lossyCopies is the number of copies of the initialisation on paths that lose datagrams. Hardly any player misses a
// part of it then. docs/protocols/rtype/repair.md
const lossyCopies = 3

// maxComponentSize bounds the data of one component in bytes.
const maxComponentSize = 1024

// Check implements registry.Checker.
func (s *Settings) Check(r registry.Report) {
	if n := len(s.Components); n > maxComponents {
		r.Fault("components", nil, fmt.Sprintf("at most %d components; these are %d", maxComponents, n))
	}
	for _, name := range slices.Sorted(maps.Keys(s.Components)) {
		size := s.Components[name]
		if len(name) < 1 || len(name) > maxName {
			r.Entry("components", name, size, fmt.Sprintf("a name of 1 to %d bytes", maxName))
		}
		if size < 0 || size > maxComponentSize {
			r.Entry("components", name, size, fmt.Sprintf("0 to %d", maxComponentSize))
		}
	}
}

// with returns the Options for a use.
func (s *Settings) with(dialect Dialect, use registry.Use) Options {
	o := Options{
		Dialect:       dialect,
		Components:    s.Components,
		Seed:          use.Seed,
		PingInterval:  time.Duration(s.PingInterval),
		IdleTimeout:   time.Duration(s.IdleTimeout),
		ServerTimeout: time.Duration(s.ServerTimeout),
		Refresh:       time.Duration(s.Refresh),
		MaxQueued:     use.Queue,
	}
	if s.Refresh > 0 { // the players' paths lose datagrams
		o.Copies = lossyCopies
	}
	return o
}
