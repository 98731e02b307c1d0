package rudp

import (
	"tidegate/codec"
	"tidegate/internal/registry"
)

// Descriptor describes the RUDP of renatommartins.
var Descriptor = registry.Descriptor{
	Name:     "rudp",
	Evidence: registry.ByChecksum,
	Table:    "rudp",
	Options: func() any {
		return &Settings{Rate: defaultRate}
	},
	New: func(options any, use registry.Use) codec.Protocol { return New(options.(*Settings).with(use)) },
	Calm: func(options any) { // a session ends after 33 packets without an acknowledgement
		options.(*Settings).Rate = 30
	},
	Describe: func(*registry.Memory) registry.Describe {
		return func(_ bool, d []byte) (string, []string, error) { return Describe(d) }
	},
}

// Settings are the options in the configuration.
type Settings struct {
	AppID uint16 `toml:"app_id"`
	Rate  uint8  `toml:"rate" min:"1" max:"255"` // packets per second
}

// with returns the Options for a use. The largest payload is the most that the library can receive.
func (s *Settings) with(use registry.Use) Options {
	return Options{
		AppID:      s.AppID,
		Rate:       s.Rate,
		MaxPayload: defaultMaxPayload - use.Headroom,
		MaxQueued:  use.Queue,
		Seed:       use.Seed,
	}
}
