package rudp

import (
	"encoding/binary"
	"testing"

	"tidegate/codec"
	"tidegate/codec/codectest"
)

// TestConformance runs at 50 Hz, so that a session survives 660 ms without an acknowledgement. All network conditions
// of the suite stay below that.
func TestConformance(t *testing.T) { codectest.Run(t, conformance()) }

// TestRecords restores sessions as earlier releases have saved them.
func TestRecords(t *testing.T) { codectest.TestRecords(t, "rudp", conformance()) }

// FuzzRestore restores records of connections, damaged in all ways.
func FuzzRestore(f *testing.F) { codectest.FuzzRestore(f, conformance()) }

func conformance() codectest.Config {
	return codectest.Config{
		New: func(seed uint64) (server, client codec.Protocol) {
			o := Options{AppID: 0xbeef, Rate: 50}
			binary.BigEndian.PutUint64(o.Seed[:], seed)
			return New(o), New(o)
		},
		ForgedAnswer: "the first packets of every server are alike",
		NearWrap: func(uint64) (server, client codec.Protocol) {
			o := Options{Rate: 50, base: 65520}
			return New(o), New(o)
		},
		MinPayload: 1,
		MaxPayload: func(codec.Mode) int { return defaultMaxPayload },
		Sizes:      []int{defaultMaxJoined - 1, defaultMaxJoined, defaultMaxJoined + 1},
		Joins:      true,
		ModesBlur:  true,
		Refusals: []codectest.GoodbyeCase{
			codectest.ReasonOnly(codec.ServerFull, codec.Rejected),
			codectest.ReasonOnly(codec.Rejected, codec.Rejected),
			codectest.ReasonOnly(codec.Banned, codec.Rejected),
		},
		Kicks: []codectest.GoodbyeCase{
			codectest.ReasonOnly(codec.Kicked, codec.Closed),
			codectest.ReasonOnly(codec.ServerStopped, codec.Closed),
			codectest.ReasonOnly(codec.Closed, codec.Closed),
		},
		StatelessRefusal: codec.Rejected,
		Forge:            forge,
		ForgedLoss:       func(codec.Mode, float64) float64 { return .001 },
		Derived: []string{
			"events", "due", "stats.RTT", "stats.Queued", "stats.Held", "stats.Kept", "stats.MTU",
			"flight.began", "flight.answered",
		},
	}
}

// BenchmarkSave measures saved connections.
func BenchmarkSave(b *testing.B) { codectest.BenchmarkSave(b, conformance()) }
