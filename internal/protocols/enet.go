package protocols

import (
	"time"

	"tidegate/codec"
	"tidegate/codec/enet"
	"tidegate/codec/explain"
	"tidegate/internal/registry"
	"tidegate/internal/units"
)

// ENet describes ENet 1.3.
var ENet = registry.Descriptor{
	Name:     "enet",
	Evidence: registry.ByShape,
	Table:    "enet",
	Options: func() any {
		return &ENetSettings{
			Channels: 255, MTU: 1392, MaxMessage: 6 * units.MiB,
			TimeoutLimit: 32, TimeoutMinimum: units.Duration(5 * time.Second), Timeout: units.Duration(30 * time.Second),
		}
	},
	New:     func(options any, use registry.Use) codec.Protocol { return enet.New(options.(*ENetSettings).with(use)) },
	Explain: func(m *explain.Memory) explain.Conversation { return enet.New(enet.Options{}).Explain(m) },
}

// ENetSettings are the options in the configuration.
type ENetSettings struct {
	Checksums      enet.Checksums   `toml:"checksums"`                          // of datagrams
	Compression    enet.Compression `toml:"compression"`                        // of datagrams
	Channels       int              `toml:"channels" min:"1" max:"255"`         // requested or granted
	MTU            int              `toml:"mtu" min:"576" max:"4096"`           // bytes of a datagram
	MaxMessage     units.Size       `toml:"max_message" min:"1KiB" max:"12MiB"` // of one message
	TimeoutLimit   int              `toml:"timeout_limit" min:"1" max:"1024"`   // growth of a command's time-out
	TimeoutMinimum units.Duration   `toml:"timeout_minimum" min:"1s" max:"5m"`  // of a peer's silence
	Timeout        units.Duration   `toml:"timeout" min:"5s" max:"5m"`          // the same, at most
}

// with returns the Options for a use.
func (s *ENetSettings) with(use registry.Use) enet.Options {
	return enet.Options{
		Checksums:      s.Checksums,
		Compression:    s.Compression,
		Channels:       s.Channels,
		MTU:            min(s.MTU, codec.MaxDatagram-use.Headroom),
		MaxMessage:     int(s.MaxMessage),
		MaxQueued:      use.Queue,
		DialTimeout:    use.Handshake,
		TimeoutLimit:   s.TimeoutLimit,
		TimeoutMinimum: time.Duration(s.TimeoutMinimum),
		Timeout:        time.Duration(s.Timeout),
		Seed:           use.Seed,
	}
}
