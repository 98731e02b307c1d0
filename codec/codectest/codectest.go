// Package codectest is the conformance suite of the codec contract. A codec runs it in one line, against itself, in
// the virtual time and seeded network of codec/codectest/simnet. The suite knows no wire format. Each codec's own
// tests and captures check the bytes of its protocol.
//
// Start with Config and Run. A side (side.go) watches one Conn and reports each breach of the contract. A ledger
// (ledger.go) records the messages of one direction and their fate. A pair (pair.go) joins a client and a server in a
// network. The list named checks holds the parts of the suite, one file each. A failing simulation logs its seed and
// last datagrams. Run it again with -seed=N, or run more seeds with -seeds=N.
package codectest

import (
	"math/rand/v2"
	"testing"
	"time"

	"tidegate/codec"
)

// Config names the codec to test and states the abilities of its protocol. Only New is required. The zero value of
// every other field means that the protocol lacks the feature.
type Config struct {
	// New returns fresh protocols for the two sides of one simulation. All their randomness comes from the seed.
	New func(seed uint64) (server, client codec.Protocol)
	// NearWrap is like New, but every counter of both sides starts just below the value where it wraps.
	NearWrap func(seed uint64) (server, client codec.Protocol)
	// NearWraps are like NearWrap, by the name of a counter that starts near its end alone. Where one counter begins anew
	// with another, it never wraps beside it.
	NearWraps map[string]func(seed uint64) (server, client codec.Protocol)
	// FewChannels is like New, but the server grants fewer channels than Channels, and the client asks for all. Nil: the
	// protocol has no such grant.
	FewChannels func(seed uint64) (server, client codec.Protocol)

	// Prefix begins every test payload, for protocols that reserve some first bytes (RakNet's packet IDs).
	Prefix []byte
	// MinPayload and MaxPayload bound the sizes in bytes that Send takes, for message ID 1 if the protocol has IDs. If
	// MaxPayload is nil, the bound is 1,000 bytes in every mode, and the suite does not test ErrTooLarge.
	MinPayload int
	MaxPayload func(codec.Mode) int
	// Sizes are further payload sizes to test, for example around the protocol's datagram boundary.
	Sizes []int
	// Pads are the possible values of Pad in messages and hellos; nil means only 0. PadsLow says that the unused bits are
	// the low ones of the last byte (RakNet), not the high ones (Riptide).
	Pads    []uint8
	PadsLow bool
	// IDs are the modes whose messages carry an application message ID.
	IDs codec.Modes
	// Channels is the number of ordering channels; 0 and 1 both mean only channel 0.
	Channels int
	// Repeats says that an Unreliable message may arrive as often as the network repeats its datagram.
	Repeats bool
	// Joins says that several messages may be received as one, with their payloads joined.
	Joins bool
	// ModesBlur says that the wire does not distinguish the modes, so that a message may arrive in another mode.
	ModesBlur bool
	// Hardens says that an unreliable message may become ReliableOrdered, for lack of numbers.
	Hardens bool

	// ClientPayload is the only payload that a client can send if it cannot send test payloads (R-Type's keys). The suite
	// then only counts its arrivals, and accepts more of them, because the handshake may contain it too. Nil: a client
	// sends the same payloads as a server.
	ClientPayload []byte
	// Greeting holds payloads that a server must send before its client counts as connected (R-Type without pings). They
	// begin with other bytes than Prefix. The server sends them until the client is connected. The suite does not count
	// them.
	Greeting [][]byte

	// HelloData and HelloIdentity say that Asked carries the client's Hello.Data and Hello.Identity.
	HelloData     bool
	HelloIdentity bool
	// ClientIDs says that the client learns its ID, which Admit sets.
	ClientIDs bool
	// Announces says that the server can Announce other clients.
	Announces bool
	// CalmHandshake says that a single loss may fail a handshake. Bad network conditions then begin after the handshake.
	CalmHandshake bool

	// Refusals, Kicks and Leaves are goodbyes to test. The server sends Refusals before Admit and Kicks afterwards. The
	// client sends Leaves. If Leaves is nil, the suite tests one: Closed, received as Closed.
	Refusals, Kicks, Leaves []GoodbyeCase
	// Deferred holds refusals of a client that waits for its grant, if the protocol is a codec.Granter.
	Deferred []GoodbyeCase
	// StatelessRefusal is the client's reason when the server answers its attempt with Refuse(ServerFull). ReasonNone:
	// the protocol has no such answer.
	StatelessRefusal codec.Reason
	// Timeout is the time within which a side notices a silent peer. DialTimeout is the time within which a client gives
	// up an unanswered attempt. Zero means 15 s.
	Timeout, DialTimeout time.Duration

	// Forgeable reports whether a forged datagram could change the session, because the protocol does not authenticate
	// it. The suite then does not require that the session survives the datagram.
	Forgeable func(datagram []byte) bool
	// FatalIfForged reports whether a forged datagram could end the session. The memory check leaves such datagrams out,
	// so that the session lives long enough to grow. Nil means none. If sessions still end too soon, the memory check
	// leaves out all that Forgeable names.
	FatalIfForged func(datagram []byte) bool
	// Forge returns a datagram that a blind forger may send. The forger knows the addresses and the protocol, and sees no
	// traffic. The suite makes others from datagrams of another session. Nil: only those.
	Forge func(rng *rand.Rand, toServer bool) []byte
	// ForgeNear is Forge with numbers close to those of a session of at most a minute. Nil: there is no such forger.
	ForgeNear func(rng *rand.Rand, toServer bool) []byte
	// ForgedLoss bounds the share of the messages of a mode that forgers may have lost who send so many datagrams a
	// second. Nil: the check forged-loss does nothing.
	ForgedLoss func(m codec.Mode, rate float64) float64
	// ForgedGap bounds how long a blind forger may hold messages up. Zero means 3 s.
	ForgedGap time.Duration
	// Defenceless is the reason why a blind forger can harm a session of the protocol. Empty: it must not.
	Defenceless string
	// ForgedAnswer is the reason why a client can be made to believe that it is connected, by a forger that does not see
	// its attempt. Empty: it must not.
	ForgedAnswer string
	// ShortProof is the reason why a forger can guess the proof of an address with 65,536 datagrams. Empty: it cannot.
	ShortProof string
	// Derived are the fields of a Conn that are not saved, by their paths: options, memory for reuse, and what Restore
	// computes from other fields. All fields below one are left out, too.
	Derived []string
	// MaxMemory bounds in bytes how much hostile datagrams may make both sides of a session grow. Zero means 4 MiB.
	MaxMemory uint64
	// MaxSpare bounds in bytes how much of that growth Stats does not count: tables of numbers, and buffers for reuse.
	// Zero means 1 MiB.
	MaxSpare uint64
	// MaxHeld bounds Stats.Held of one side in bytes, for a hostile peer too. Zero means 64 KiB.
	MaxHeld int

	boundsPayload bool         // MaxPayload was given
	modes         []codec.Mode // modes of the protocol
	fields        *fieldCheck  // nil: no check of single fields
	twins         bool         // both ends poll after each Transmit round, so that they can be saved
	replaces      bool         // both ends are saved and restored now and then
}

// GoodbyeCase is a goodbye as one side sends it and as the other receives it.
type GoodbyeCase struct{ Sent, Received codec.Goodbye }

// ReasonOnly returns a goodbye with a reason and no data.
func ReasonOnly(sent, received codec.Reason) GoodbyeCase {
	return GoodbyeCase{Sent: codec.Goodbye{Reason: sent}, Received: codec.Goodbye{Reason: received}}
}

// factory makes the protocols of a simulation, like Config.New.
type factory = func(seed uint64) (server, client codec.Protocol)

// check is one part of the suite.
type check struct {
	name string
	run  func(t tb, c *Config)
}

// checks is the suite without the traffic checks (traffic.go), which are a matrix of network conditions and modes.
var checks = []check{
	{"protocol", checkProtocol},
	{"sizes", checkSizes},
	{"send-errors", checkSendErrors},
	{"bulk", checkBulk},
	{"few-channels", checkFewChannels},
	{"queue-full", checkQueueFull},
	{"news", checkAnnouncements},
	{"confirm", checkConfirm},
	{"leave", checkLeaves},
	{"kick", checkKicks},
	{"refuse", checkRefusals},
	{"refuse-stateless", checkStatelessRefusal},
	{"grant", checkGrant},
	{"close-early", checkCloseEarly},
	{"close-flushes", checkFlush},
	{"close-both", checkCloseBoth},
	{"peer-vanishes", checkVanish},
	{"no-answer", checkNoAnswer},
	{"hostile", checkHostile},
	{"forger", checkForger},
	{"forged-loss", checkForgedLoss},
	{"forged-goodbye", checkForgedGoodbye},
	{"memory", checkMemory},
	{"release", checkRelease},
	{"proof", checkProof},
	{"forged-answer", checkForgedAnswer},
	{"optional", checkOptional},
	{"save", checkSave},
	{"saved-fields", checkSavedFields},
	{"saved-later", checkLater},
	{"allocations", checkAllocs},
}

// Run tests a codec.
func Run(t *testing.T, config Config) {
	c := config.withDefaults()
	for _, ck := range append(trafficChecks(c), checks...) {
		t.Run(ck.name, func(t *testing.T) { ck.run(t, c) })
	}
}

func (c Config) withDefaults() *Config {
	if c.MaxPayload == nil {
		c.MaxPayload = func(codec.Mode) int { return 1000 }
	} else {
		c.boundsPayload = true
	}
	if c.Pads == nil {
		c.Pads = []uint8{0}
	}
	if c.Leaves == nil {
		closed := codec.Goodbye{Reason: codec.Closed}
		c.Leaves = []GoodbyeCase{{Sent: closed, Received: closed}}
	}
	if c.Timeout == 0 {
		c.Timeout = 15 * time.Second
	}
	if c.DialTimeout == 0 {
		c.DialTimeout = 15 * time.Second
	}
	if c.ForgedGap == 0 {
		c.ForgedGap = 3 * time.Second
	}
	if c.MaxMemory == 0 {
		c.MaxMemory = 4 << 20
	}
	if c.MaxSpare == 0 {
		c.MaxSpare = 1 << 20
	}
	if c.MaxHeld == 0 {
		c.MaxHeld = 64 << 10
	}
	c.Channels = max(c.Channels, 1)
	server, _ := c.New(1)
	for m := codec.Unreliable; m <= codec.Notify; m++ {
		if server.Spec().Modes.Has(m) {
			c.modes = append(c.modes, m)
		}
	}
	return &c
}
