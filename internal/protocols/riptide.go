package protocols

import (
	"fmt"
	"strings"
	"time"

	"tidegate/codec"
	"tidegate/codec/explain"
	"tidegate/codec/riptide"
	"tidegate/internal/registry"
	"tidegate/internal/units"
)

// Riptide22 describes Riptide 2.1.0 to 2.2.1, and Riptide20 describes Riptide 2.0.
var (
	Riptide22 = riptideOf(riptide.V22, "riptide-2.2", 4, "riptide-2.1")
	Riptide20 = riptideOf(riptide.V20, "riptide-2.0", 2)
)

func riptideOf(v riptide.Version, name string, prefix int, aliases ...string) registry.Descriptor {
	return registry.Descriptor{
		Name:     name,
		Aliases:  aliases,
		Evidence: registry.ByShape,
		Table:    "riptide",
		Options: func() any {
			return &RiptideSettings{
				Heartbeat:         units.Duration(time.Second),
				Timeout:           units.Duration(5 * time.Second),
				MaxPayload:        1225,
				QualityDisconnect: true,
			}
		},
		New: func(options any, use registry.Use) codec.Protocol {
			return riptide.New(options.(*RiptideSettings).with(v, use))
		},
		Calm: func(options any) {
			s := options.(*RiptideSettings)
			s.Timeout, s.QualityDisconnect = units.Duration(15*time.Second), false
		},
		Stream: &registry.Stream{
			Prefix:   prefix,
			MaxFrame: func(options any) int { return options.(*RiptideSettings).MaxPayload + riptideHeader },
		},
		Types: func(wanted string) string { return typeWanted(v, name, wanted) },
		Explain: func(m *explain.Memory) explain.Conversation {
			return riptide.New(riptide.Options{Version: v}).Explain(m)
		},
	}
}

// riptideHeader is the size of Riptide's longest header.
const riptideHeader = 6

// RiptideSettings are the options in the configuration, of both versions.
type RiptideSettings struct {
	Heartbeat         units.Duration `toml:"heartbeat" min:"100ms" max:"1m"`
	Timeout           units.Duration `toml:"timeout" min:"1s" max:"5m"`
	MaxPayload        int            `toml:"max_payload" min:"1" max:"4090"` // bytes
	QualityDisconnect bool           `toml:"quality_disconnect"`
	RelayFilter       int            `toml:"relay_filter" min:"0" max:"65536"` // message IDs
}

// Check implements registry.Checker.
func (s *RiptideSettings) Check(r registry.Report) {
	if s.Timeout <= s.Heartbeat {
		r.Fault("timeout", s.Timeout, fmt.Sprintf("longer than riptide.heartbeat, which is %s", s.Heartbeat))
	}
}

// with returns the Options for a use.
func (s *RiptideSettings) with(v riptide.Version, use registry.Use) riptide.Options {
	return riptide.Options{
		Version:           v,
		HeartbeatInterval: time.Duration(s.Heartbeat),
		TimeoutTime:       time.Duration(s.Timeout),
		ConnectTimeout:    use.Handshake,
		MaxAttempts:       max(5, int(s.Timeout/s.Heartbeat)),
		MaxPayload:        s.MaxPayload,
		Headroom:          use.Headroom,
		MaxQueued:         use.Queue,
		IgnoreQuality:     !s.QualityDisconnect,
		RelayFilter:       s.RelayFilter,
		Stream:            use.Stream,
	}
}

// typeWanted returns which types of value a version wants in place of name. It returns "" if the version has that
// type.
func typeWanted(v riptide.Version, version, name string) string {
	schema, err := riptide.ParseSchema([]string{name})
	if err != nil {
		_, want, _ := strings.Cut(err.Error(), ": want ") // the text before it names the type, as the fault does
		return want
	}
	if schema.Check(v) != nil {
		return "a type that " + version + " has"
	}
	return ""
}
