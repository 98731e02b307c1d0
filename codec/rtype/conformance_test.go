package rtype

import (
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest"
)

// Both of the game's dialects carry updates either way, which is what the suite sends. Its server has no components to
// announce, so that the first ping is what its client hears first.
func TestConformance(t *testing.T) {
	t.Run("16", func(t *testing.T) { conform(t, Game16, maxDatagram+2) }) // entities are wider in canonical form
	t.Run("32", func(t *testing.T) { conform(t, Game32, maxDatagram) })
}

func conform(t *testing.T, dialect Dialect, largest int) {
	options := Options{
		Dialect:       dialect,
		HelloInterval: 200 * time.Millisecond,
		MaxHellos:     20,
		PingInterval:  500 * time.Millisecond,
		PongTimeout:   8 * time.Second,
		IdleTimeout:   12 * time.Second,
		ServerTimeout: 12 * time.Second,
	}
	codectest.Run(t, codectest.Config{
		New:        func(uint64) (server, client codec.Protocol) { return New(options), New(options) },
		Prefix:     (&instruction{op: update, entity: 1}).append(nil, 4),
		MaxPayload: func(codec.Mode) int { return largest },
		Repeats:    true,
		Leaves:     []codectest.Farewell{farewell(codec.Closed, codec.TimedOut)},
		Kicks: []codectest.Farewell{
			farewell(codec.ServerStopped, codec.Kicked),
			farewell(codec.Kicked, codec.Kicked),
		},
		Refusals: []codectest.Farewell{
			farewell(codec.ServerFull, codec.Rejected),
			{
				Said:  codec.Goodbye{Reason: codec.RejectedCustom, Data: []byte("no")},
				Heard: codec.Goodbye{Reason: codec.Rejected},
			},
		},
		StatelessRefusal: codec.Rejected,
		Forges:           isGoodbye,
	})
}

func farewell(said, heard codec.Reason) codectest.Farewell {
	return codectest.Farewell{Said: codec.Goodbye{Reason: said}, Heard: codec.Goodbye{Reason: heard}}
}
