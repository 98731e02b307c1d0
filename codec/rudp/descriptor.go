package rudp

import (
	"time"

	"tidegate/codec"
	"tidegate/internal/registry"
	"tidegate/internal/units"
)

// Descriptor describes the RUDP of renatommartins.
var Descriptor = registry.Descriptor{
	Name:     "rudp",
	Evidence: registry.ByChecksum,
	Table:    "rudp",
	Options: func() any {
		return &Settings{
			Rate: defaultRate, MaxPayload: defaultMaxPayload, MaxJoined: defaultMaxJoined,
			ConnectTimeout: units.Duration(defaultDialTimeout),
		}
	},
	New: func(options any, use registry.Use) codec.Protocol { return New(options.(*Settings).with(use)) },
	Calm: func(options any) { // a session ends after 33 packets without an acknowledgement
		options.(*Settings).Rate = 30
	},
	Describe: func(*registry.Memory) registry.Describe {
		return func(_ bool, d []byte) (string, []string, error) { return Describe(d) }
	},
}

// Settings are the options in the configuration. The largest payload is the most that the library can receive. Joined
// messages fit into an Ethernet packet.
type Settings struct {
	AppID          uint16         `toml:"app_id"`
	Rate           uint8          `toml:"rate" min:"1" max:"255"`                       // packets per second
	MaxPayload     int            `toml:"max_payload" min:"1" max:"4080" room:"header"` // bytes of one message
	MaxJoined      int            `toml:"max_joined" min:"1" max:"1456"`                // bytes that share a packet
	ConnectTimeout units.Duration `toml:"connect_timeout" min:"100ms" max:"1m"`
}

// with returns the Options for a use.
func (s *Settings) with(use registry.Use) Options {
	return Options{
		AppID:       s.AppID,
		Rate:        s.Rate,
		MaxPayload:  s.MaxPayload,
		MaxJoined:   s.MaxJoined,
		MaxQueued:   use.Queue,
		DialTimeout: time.Duration(s.ConnectTimeout),
		Seed:        use.Seed,
	}
}
