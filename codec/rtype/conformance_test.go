package rtype

import (
	"math/rand/v2"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest"
)

// TestConformance: both of the game's dialects carry updates both ways, so the suite sends updates. The suite's server
// has no components to announce, so its client first hears a ping. Entities of 16 bits are wider in canonical form.
func TestConformance(t *testing.T) {
	t.Run("16", func(t *testing.T) { codectest.Run(t, conformance(Game16, maxDatagram+2)) })
	t.Run("32", func(t *testing.T) { codectest.Run(t, conformance(Game32, maxDatagram)) })
	t.Run("last", func(t *testing.T) {
		c := conformance(GameLast, maxDatagram)
		c.Greeting = greeting(Final, 4) // its client waits for the components
		codectest.Run(t, c)
	})
	t.Run("auto", func(t *testing.T) {
		c := conformance(Auto, maxDatagram)
		c.Greeting = greeting(Late, 4) // it shows the client the width of entities
		codectest.Run(t, c)
	})
	t.Run("0.0.1", func(t *testing.T) { codectest.Run(t, conformanceDocument()) })
}

// TestRecords restores sessions as earlier releases have saved them.
func TestRecords(t *testing.T) {
	codectest.TestRecords(t, "rtype-16", conformance(Game16, maxDatagram+2))
	codectest.TestRecords(t, "rtype-32", conformance(Game32, maxDatagram))
	last := conformance(GameLast, maxDatagram)
	last.Greeting = greeting(Final, 4)
	codectest.TestRecords(t, "rtype-final", last)
	codectest.TestRecords(t, "rtype-0.0.1", conformanceDocument())
}

// FuzzRestore restores records of connections, damaged in all ways.
func FuzzRestore(f *testing.F) {
	c := conformance(GameLast, maxDatagram)
	c.Greeting = greeting(Final, 4)
	codectest.FuzzRestore(f, c)
}

// greeting returns a server's component and entity in canonical form, and the messages for a client that asks again.
func greeting(era Era, width uint8) [][]byte {
	announcement := append([]byte{announced, byte(era), width, 0, 1, 4}, "Test\xff\xff"...)
	return [][]byte{
		announcement,
		(&instruction{op: create, entity: 1}).append(nil, &canonical),
		(&instruction{op: attach, entity: 1}).append(nil, &canonical),
	}
}

// conformanceDocument describes the abilities of the document's dialect. Its clients only press keys, the first key
// opens the session, and neither side says goodbye.
func conformanceDocument() codectest.Config {
	c := conformance(Document, maxDatagram+2)
	c.ClientPayload = documentHello
	c.Greeting = greeting(Early, 2)
	silence := codectest.ReasonOnly(codec.Kicked, codec.TimedOut)
	c.Kicks = []codectest.GoodbyeCase{silence}
	c.Refusals = []codectest.GoodbyeCase{codectest.ReasonOnly(codec.ServerFull, codec.NoConnection)}
	c.StatelessRefusal = codec.NoConnection
	c.Forgeable = nil
	return c
}

func conformance(dialect Dialect, largest int) codectest.Config {
	options := Options{
		Dialect:       dialect,
		HelloInterval: 200 * time.Millisecond,
		MaxHellos:     20,
		PingInterval:  500 * time.Millisecond,
		PongTimeout:   8 * time.Second,
		IdleTimeout:   12 * time.Second,
		ServerTimeout: 12 * time.Second,
	}
	return codectest.Config{
		New:        func(uint64) (server, client codec.Protocol) { return New(options), New(options) },
		Prefix:     (&instruction{op: update, entity: 1}).append(nil, &canonical),
		MaxPayload: func(codec.Mode) int { return largest },
		Derived: []string{
			"link.events", "link.initial", "link.stats.RTT", "link.stats.Queued", "link.stats.Held", "link.stats.Kept",
			"link.stats.MTU",
			"server.ip.addr.hi",
			"gather.held", "gather.full", "mirror.bytes", "mirror.max", "pinger.interval", "pinger.timeout", "rate.perSecond",
		},
		Repeats: true,

		ForgedAnswer: "every datagram of a server shows that it has answered",
		Defenceless:  "R-Type has neither a secret nor a number: a datagram of the player's address is the player's",

		Leaves: []codectest.GoodbyeCase{codectest.ReasonOnly(codec.Closed, codec.TimedOut)},
		Kicks: []codectest.GoodbyeCase{
			codectest.ReasonOnly(codec.ServerStopped, codec.Kicked),
			codectest.ReasonOnly(codec.Kicked, codec.Kicked),
		},
		Refusals: []codectest.GoodbyeCase{
			codectest.ReasonOnly(codec.ServerFull, codec.Rejected),
			{
				Sent:     codec.Goodbye{Reason: codec.RejectedCustom, Data: []byte("no")},
				Received: codec.Goodbye{Reason: codec.Rejected},
			},
		},
		StatelessRefusal: codec.Rejected,
		Forgeable:        isGoodbye,
		Forge:            forge,
	}
}

// forge returns a datagram of a forger that knows the protocol: the server's goodbye, or an instruction.
func forge(rng *rand.Rand, toServer bool) []byte {
	if !toServer && rng.IntN(100) == 0 {
		return goodbye
	}
	i := instruction{op: opcode(rng.IntN(5)), entity: rng.Uint32N(4), component: uint16(rng.IntN(4)), data: []byte{1}}
	return i.append(nil, &canonical)
}

// BenchmarkSave measures saved connections.
func BenchmarkSave(b *testing.B) { codectest.BenchmarkSave(b, conformance(Game32, maxDatagram)) }
