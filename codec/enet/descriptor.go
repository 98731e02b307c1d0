package enet

import (
	"time"

	"tidegate/codec"
	"tidegate/internal/enum"
	"tidegate/internal/registry"
	"tidegate/internal/units"
)

// Descriptor describes ENet 1.3.
var Descriptor = registry.Descriptor{
	Name:     "enet",
	Evidence: registry.ByShape,
	Table:    "enet",
	Options: func() any {
		return &Settings{
			Channels: maxChannels, MTU: defaultMTU, MaxMessage: units.Size(defaultMaxMessage),
			TimeoutLimit: defaultTimeoutLimit, TimeoutMinimum: units.Duration(defaultTimeoutMinimum),
			Timeout: units.Duration(defaultTimeout),
		}
	},
	New:      func(options any, use registry.Use) codec.Protocol { return New(options.(*Settings).with(use)) },
	Describe: func(*registry.Memory) registry.Describe { return new(Describer).Describe },
}

// Settings are the options in the configuration.
type Settings struct {
	Checksums      Checksums      `toml:"checksums"`                          // of datagrams
	Compression    Compression    `toml:"compression"`                        // of datagrams
	Channels       int            `toml:"channels" min:"1" max:"255"`         // requested or granted
	MTU            int            `toml:"mtu" min:"576" max:"4096"`           // bytes of a datagram
	MaxMessage     units.Size     `toml:"max_message" min:"1KiB" max:"12MiB"` // of one message
	TimeoutLimit   int            `toml:"timeout_limit" min:"1" max:"1024"`   // growth of a command's time-out
	TimeoutMinimum units.Duration `toml:"timeout_minimum" min:"1s" max:"5m"`  // of a peer's silence
	Timeout        units.Duration `toml:"timeout" min:"5s" max:"5m"`          // the same, at most
}

// with returns the Options for a use.
func (s *Settings) with(use registry.Use) Options {
	return Options{
		Checksums:      s.Checksums,
		Compression:    s.Compression,
		Channels:       s.Channels,
		MTU:            min(s.MTU, maxMTU-use.Headroom),
		MaxMessage:     int(s.MaxMessage),
		MaxQueued:      use.Queue,
		DialTimeout:    use.Handshake,
		TimeoutLimit:   s.TimeoutLimit,
		TimeoutMinimum: time.Duration(s.TimeoutMinimum),
		Timeout:        time.Duration(s.Timeout),
		Seed:           use.Seed,
	}
}

// The values' names in the configuration.
var (
	checksumNames    = []string{ChecksumsAuto: "auto", ChecksumsOn: "on", ChecksumsOff: "off"}
	compressionNames = []string{CompressionAuto: "auto", CompressionRange: "range-coder", CompressionOff: "off"}
)

// String returns the value as in the configuration.
func (c Checksums) String() string { return enum.Name(checksumNames, c) }

// UnmarshalText reads String's form.
func (c *Checksums) UnmarshalText(text []byte) error { return enum.Parse(checksumNames, text, c) }

// Choices lists the values that UnmarshalText reads.
func (Checksums) Choices() []string { return checksumNames }

// String returns the value as in the configuration.
func (c Compression) String() string { return enum.Name(compressionNames, c) }

// UnmarshalText reads String's form.
func (c *Compression) UnmarshalText(text []byte) error { return enum.Parse(compressionNames, text, c) }

// Choices lists the values that UnmarshalText reads.
func (Compression) Choices() []string { return compressionNames }
