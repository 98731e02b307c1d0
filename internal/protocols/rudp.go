package protocols

import (
	"tidegate/codec"
	"tidegate/codec/explain"
	"tidegate/codec/rudp"
	"tidegate/internal/registry"
)

// RUDP describes the RUDP of renatommartins.
var RUDP = registry.Descriptor{
	Name:     "rudp",
	Evidence: registry.ByChecksum,
	Table:    "rudp",
	Options: func() any {
		return &RUDPSettings{Rate: 100}
	},
	New: func(options any, use registry.Use) codec.Protocol { return rudp.New(options.(*RUDPSettings).with(use)) },
	Calm: func(options any) { // a session ends after 33 packets without an acknowledgement
		options.(*RUDPSettings).Rate = 30
	},
	Explain: func(m *explain.Memory) explain.Conversation { return rudp.New(rudp.Options{}).Explain(m) },
}

// RUDPSettings are the options in the configuration.
type RUDPSettings struct {
	AppID uint16 `toml:"app_id"`
	Rate  uint8  `toml:"rate" min:"1" max:"255"` // packets per second
}

// rudpPayload is the largest payload that the library can receive.
const rudpPayload = codec.MaxDatagram - 16

// with returns the Options for a use.
func (s *RUDPSettings) with(use registry.Use) rudp.Options {
	return rudp.Options{
		AppID:      s.AppID,
		Rate:       s.Rate,
		MaxPayload: rudpPayload - use.Headroom,
		MaxQueued:  use.Queue,
		Seed:       use.Seed,
	}
}
