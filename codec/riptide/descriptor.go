package riptide

import (
	"fmt"
	"strings"
	"time"

	"tidegate/codec"
	"tidegate/internal/registry"
	"tidegate/internal/units"
)

// Riptide22 describes Riptide 2.1.0 to 2.2.1, and Riptide20 describes Riptide 2.0.
var (
	Riptide22 = descriptor(V22, 4, "riptide-2.1")
	Riptide20 = descriptor(V20, 2)
)

func descriptor(v Version, prefix int, aliases ...string) registry.Descriptor {
	return registry.Descriptor{
		Name:     names[v],
		Aliases:  aliases,
		Evidence: registry.ByShape,
		Table:    "riptide",
		Options: func() any {
			return &Settings{
				Heartbeat:         units.Duration(defaultHeartbeat),
				Timeout:           units.Duration(defaultTimeout),
				MaxPayload:        defaultPayload,
				QualityDisconnect: true,
			}
		},
		New: func(options any, use registry.Use) codec.Protocol { return New(options.(*Settings).with(v, use)) },
		Calm: func(options any) {
			s := options.(*Settings)
			s.Timeout, s.QualityDisconnect = units.Duration(15*time.Second), false
		},
		Stream: &registry.Stream{
			Prefix:   prefix,
			MaxFrame: func(options any) int { return options.(*Settings).MaxPayload + maxMessage - defaultPayload },
		},
		Types: func(name string) string { return typeWanted(v, name) },
		Describe: func(*registry.Memory) registry.Describe {
			return func(fromServer bool, d []byte) (string, []string, error) { return Describe(v, fromServer, d) }
		},
	}
}

// mostPayload is the largest payload: it leaves room for Riptide's headers in a datagram of codec.MaxDatagram.
const mostPayload = 4090

// Settings are the options in the configuration, of both versions.
type Settings struct {
	Heartbeat         units.Duration `toml:"heartbeat" min:"100ms" max:"1m"`
	Timeout           units.Duration `toml:"timeout" min:"1s" max:"5m"`
	MaxPayload        int            `toml:"max_payload" min:"1" max:"4090"` // bytes
	QualityDisconnect bool           `toml:"quality_disconnect"`
}

// Check implements registry.Checker.
func (s *Settings) Check(r registry.Report) {
	if s.Timeout <= s.Heartbeat {
		r.Fault("timeout", s.Timeout, fmt.Sprintf("longer than riptide.heartbeat, which is %s", s.Heartbeat))
	}
}

// with returns the Options for a use.
func (s *Settings) with(v Version, use registry.Use) Options {
	return Options{
		Version:           v,
		HeartbeatInterval: time.Duration(s.Heartbeat),
		TimeoutTime:       time.Duration(s.Timeout),
		ConnectTimeout:    use.Handshake,
		MaxAttempts:       max(defaultAttempts, int(s.Timeout/s.Heartbeat)),
		MaxPayload:        s.MaxPayload,
		Headroom:          use.Headroom,
		MaxQueued:         use.Queue,
		IgnoreQuality:     !s.QualityDisconnect,
		Stream:            use.Stream,
	}
}

// typeWanted returns which types of value a version wants in place of name. It returns "" if the version has that
// type.
func typeWanted(v Version, name string) string {
	schema, err := ParseSchema([]string{name})
	if err != nil {
		_, want, _ := strings.Cut(err.Error(), ": want ") // the text before it names the type, as the fault does
		return want
	}
	if schema.Check(v) != nil {
		return "a type that " + names[v] + " has"
	}
	return ""
}
