package rtype

import (
	"errors"
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
	if dialect == Auto {
		return d
	}
	d.Inputs = func(options any) []string { return inputs(dialect, options.(*Settings).Era) }
	return d
}

// inputs names the possible inputs of a dialect's clients. docs/protocols/rtype.md#dialects
func inputs(dialect Dialect, era Era) []string {
	const keys, updates = "keys", "updates"
	late := era == Late || era == AnyEra && dialect == Game32
	switch {
	case dialect == Document:
		return []string{keys}
	case late, dialect == GameLast:
		return []string{updates}
	}
	return []string{keys, updates}
}

// Settings are the options in the configuration, of every dialect.
type Settings struct {
	Hello           string         `toml:"hello" min:"1" max:"255"` // not for the document's dialect, which has none
	Era             Era            `toml:"era"`
	Components      map[string]int `toml:"components"`                       // bytes of data, by name
	PingInterval    units.Duration `toml:"ping_interval" min:"0s" max:"5m"`  // 0: never
	PingTimeout     units.Duration `toml:"ping_timeout" min:"1s" max:"5m"`   // for a client that was pinged
	IdleTimeout     units.Duration `toml:"idle_timeout" min:"1s" max:"1h"`   // of clients
	ServerTimeout   units.Duration `toml:"server_timeout" min:"1s" max:"1h"` // of servers
	ConnectInterval units.Duration `toml:"connect_interval" min:"100ms" max:"1m"`
	ConnectAttempts int            `toml:"connect_attempts" min:"1" max:"100"`
	Refresh         units.Duration `toml:"refresh" min:"0s" max:"1h"`        // 0: never
	InitialCopies   int            `toml:"initial_copies" min:"1" max:"8"`   // of each part of the initialisation
	MaxWorld        units.Size     `toml:"max_world" min:"1KiB" max:"64MiB"` // state of a server, kept to refresh it
	MaxRate         int            `toml:"max_rate" min:"1" max:"100000"`    // messages per second from a client
}

func defaultSettings() *Settings {
	return &Settings{
		Hello:           string(defaultHello),
		Components:      map[string]int{},
		PingTimeout:     units.Duration(defaultPongTimeout),
		IdleTimeout:     units.Duration(defaultIdleTimeout),
		ServerTimeout:   units.Duration(defaultServerTimeout),
		ConnectInterval: units.Duration(defaultHelloInterval),
		ConnectAttempts: defaultHellos,
		InitialCopies:   1,
		MaxWorld:        defaultWorld,
		MaxRate:         defaultRate,
	}
}

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
		Era:           s.Era,
		Components:    s.Components,
		Seed:          use.Seed,
		PingInterval:  time.Duration(s.PingInterval),
		PongTimeout:   time.Duration(s.PingTimeout),
		IdleTimeout:   time.Duration(s.IdleTimeout),
		ServerTimeout: time.Duration(s.ServerTimeout),
		HelloInterval: time.Duration(s.ConnectInterval),
		MaxHellos:     s.ConnectAttempts,
		Refresh:       time.Duration(s.Refresh),
		Copies:        s.InitialCopies,
		MaxQueued:     use.Queue,
		MaxWorld:      int(s.MaxWorld),
		MaxRate:       s.MaxRate,
	}
	if dialect != Document && dialect != GameLast {
		o.Hello = []byte(s.Hello)
	}
	return o
}

// eras holds the names in the configuration. Final is missing, because only GameLast has it.
var eras = [...]string{AnyEra: "auto", Early: "early", Late: "late"}

var errEra = errors.New("not an era")

// String returns the era's name in the configuration.
func (e Era) String() string {
	if int(e) < len(eras) {
		return eras[e]
	}
	return "final"
}

// UnmarshalText reads String's form.
func (e *Era) UnmarshalText(text []byte) error {
	i := slices.Index(eras[:], string(text))
	if i < 0 {
		return errEra
	}
	*e = Era(i)
	return nil
}

// Choices lists the eras.
func (Era) Choices() []string { return eras[:] }
