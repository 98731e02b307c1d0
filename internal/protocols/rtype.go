package protocols

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"tidegate/codec"
	"tidegate/codec/explain"
	"tidegate/codec/rtype"
	"tidegate/internal/registry"
	"tidegate/internal/units"
)

// The dialects of R-Type. RType finds out the peer's dialect, and RTypeDocument is that of the protocol document. The
// game's own dialects have entities of 16 or 32 bits, or, in the last game, a handshake of its own.
var (
	RType         = rtypeOf(rtype.Auto, "rtype")
	RTypeDocument = rtypeOf(rtype.Document, "rtype-0.0.1", "keys")
	RType16       = rtypeOf(rtype.Game16, "rtype-16", "keys", "updates")
	RType32       = rtypeOf(rtype.Game32, "rtype-32", "updates")
	RTypeFinal    = rtypeOf(rtype.GameLast, "rtype-final", "updates")
)

// rtypeOf describes a dialect. inputs are those of its clients; none: any (docs/protocols/rtype.md#dialects).
func rtypeOf(dialect rtype.Dialect, name string, inputs ...string) registry.Descriptor {
	return registry.Descriptor{
		Name:     name,
		Evidence: registry.ByShape,
		Table:    "rtype",
		Options:  func() any { return rtypeDefaults() },
		New: func(options any, use registry.Use) codec.Protocol {
			return rtype.New(options.(*RTypeSettings).with(dialect, use))
		},
		Inputs: inputs,
		Explain: func(m *explain.Memory) explain.Conversation {
			return rtype.New(rtype.Options{Dialect: dialect}).Explain(m)
		},
	}
}

// RTypeSettings are the options in the configuration, of every dialect.
type RTypeSettings struct {
	Components    map[string]int `toml:"components"`                       // bytes of data, by name
	PingInterval  units.Duration `toml:"ping_interval" min:"0s" max:"5m"`  // 0: never
	IdleTimeout   units.Duration `toml:"idle_timeout" min:"1s" max:"1h"`   // of clients
	ServerTimeout units.Duration `toml:"server_timeout" min:"1s" max:"1h"` // of servers
	Refresh       units.Duration `toml:"refresh" min:"0s" max:"1h"`        // 0: never
}

func rtypeDefaults() *RTypeSettings {
	return &RTypeSettings{
		Components:    map[string]int{},
		IdleTimeout:   units.Duration(10 * time.Minute),
		ServerTimeout: units.Duration(90 * time.Second),
	}
}

// lossyCopies is the number of copies of the initialisation on paths that lose datagrams. Hardly any player misses a
// part of it then. docs/protocols/rtype/repair.md
const lossyCopies = 3

// Bounds of R-Type's components: their number, the bytes of a name, and those of one's data.
const (
	maxComponents    = 255
	maxComponentName = 255
	maxComponentSize = 1024
)

// Check implements registry.Checker.
func (s *RTypeSettings) Check(r registry.Report) {
	if n := len(s.Components); n > maxComponents {
		r.Fault("components", nil, fmt.Sprintf("at most %d components; these are %d", maxComponents, n))
	}
	for _, name := range slices.Sorted(maps.Keys(s.Components)) {
		size := s.Components[name]
		if len(name) < 1 || len(name) > maxComponentName {
			r.Entry("components", name, size, fmt.Sprintf("a name of 1 to %d bytes", maxComponentName))
		}
		if size < 0 || size > maxComponentSize {
			r.Entry("components", name, size, fmt.Sprintf("0 to %d", maxComponentSize))
		}
	}
}

// with returns the Options for a use.
func (s *RTypeSettings) with(dialect rtype.Dialect, use registry.Use) rtype.Options {
	o := rtype.Options{
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
