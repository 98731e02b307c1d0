package enet

import (
	"encoding/binary"
	"testing"

	"tidegate/codec"
	"tidegate/codec/codectest"
	"tidegate/internal/testkit/heavy"
)

// seeded returns options with secrets from a seed.
func seeded(seed uint64, o Options) Options {
	binary.BigEndian.PutUint64(o.Seed[:], seed+1)
	return o
}

func suite(o Options) codectest.Config {
	o.TimeoutLimit = 8 // silence is noticed within the suite's time, also where round trips are long
	o.MaxMessage = 1 << 20
	client := o
	if o.Checksums == ChecksumsOn {
		o.Checksums = ChecksumsAuto
	}
	build := func(seed uint64, base uint16) (codec.Protocol, codec.Protocol) {
		server, client := seeded(seed, o), seeded(seed+1<<32, client)
		server.base, client.base = base, base
		return New(server), New(client)
	}
	defaults := o.withDefaults()
	room := fragmentRoom(defaultMTU, o.Checksums == ChecksumsOn)
	return codectest.Config{
		MaxHeld:  5 << 20,
		New:      func(seed uint64) (server, client codec.Protocol) { return build(seed, 0) },
		NearWrap: func(seed uint64) (server, client codec.Protocol) { return build(seed, 65520) },
		NearWraps: map[string]func(seed uint64) (server, client codec.Protocol){
			"unreliable numbers": func(seed uint64) (codec.Protocol, codec.Protocol) {
				ours, theirs := seeded(seed, o), seeded(seed+1<<32, client)
				ours.follows, theirs.follows = 65534, 65534 // there are many channels
				return New(ours), New(theirs)
			},
		},
		FewChannels: func(seed uint64) (codec.Protocol, codec.Protocol) {
			few := o
			few.Channels = 3
			return New(seeded(seed, few)), New(seeded(seed+1<<32, client))
		},
		MaxPayload: defaults.maxPayload,
		Sizes:      []int{room - 1, room, room + 1, 2 * room, 2*room + 1},
		Channels:   maxChannels,
		Hardens:    true,
		Refusals: []codectest.GoodbyeCase{
			codectest.ReasonOnly(codec.ServerFull, codec.Rejected),
			{Sent: codec.Goodbye{Reason: codec.RejectedCustom, Data: []byte{0, 0, 0, 7}},
				Received: codec.Goodbye{Reason: codec.RejectedCustom, Data: []byte{0, 0, 0, 7}}},
		},
		Kicks: []codectest.GoodbyeCase{
			codectest.ReasonOnly(codec.Closed, codec.Closed),
			codectest.ReasonOnly(codec.ServerStopped, codec.Closed),
			{Sent: codec.Goodbye{Reason: codec.Kicked, Data: []byte{1, 2, 3, 4}},
				Received: codec.Goodbye{Reason: codec.Kicked, Data: []byte{1, 2, 3, 4}}},
		},
		Leaves: []codectest.GoodbyeCase{
			codectest.ReasonOnly(codec.Closed, codec.Closed),
			{Sent: codec.Goodbye{Reason: codec.Closed, Data: []byte{0, 0, 1, 0}},
				Received: codec.Goodbye{Reason: codec.Closed, Data: []byte{0, 0, 1, 0}}},
		},
		StatelessRefusal: codec.Rejected,
		Forge:            forge,
		ForgeNear:        forgeNear,
		ForgedLoss:       mostForgedLoss,
		Derived: []string{
			"events", "giant", "evident", "peerClock.far", "peerClock.farAt",
			"handshake.due", "heirs.proved", "stats.RTT", "stats.Queued", "stats.Held", "stats.Kept", "stats.MTU",
			"flight.bytes", "flight.messages", "flight.resend", "flight.waiting",
			"in.early", "in.follows", "in.guesses", "in.held", "in.heldNext", "in.largest", "in.now", "in.waiting",
			"out.bytes", "out.count", "out.most", "out.reliable", "out.uncounted", "out.unreliable",
		},
	}
}

func TestConformance(t *testing.T) {
	t.Run("checksums", func(t *testing.T) { codectest.Run(t, suite(Options{Checksums: ChecksumsOn})) })
	t.Run("checksums and compression", func(t *testing.T) {
		heavy.Skip(t)
		codectest.Run(t, suite(Options{Checksums: ChecksumsOn, Compression: CompressionRange}))
	})
	t.Run("plain", func(t *testing.T) {
		config := suite(Options{})
		// A forger that reads a session's datagrams can write others: only an ID and a session identify them.
		config.Forgeable = func(datagram []byte) bool { return len(datagram) > headerLen }
		codectest.Run(t, config)
	})
}

// TestRecords restores sessions as earlier releases have saved them.
func TestRecords(t *testing.T) {
	codectest.TestRecords(t, "enet", suite(Options{}))
	codectest.TestRecords(t, "enet-checksums", suite(Options{Checksums: ChecksumsOn}))
}

// FuzzRestore restores records of connections, damaged in all ways.
func FuzzRestore(f *testing.F) { codectest.FuzzRestore(f, suite(Options{})) }

// BenchmarkSave measures saved connections.
func BenchmarkSave(b *testing.B) { codectest.BenchmarkSave(b, suite(Options{})) }
