// Package codectest is the conformance suite of the codec contract: any codec runs it in one line, against itself, in
// the virtual time and seeded weather of internal/testkit/simnet. It does not know any wire format; what the bytes of a
// protocol must look like is for that codec's own tests and captures.
//
// Start with Config and Run. A side (side.go) watches one Conn and reports every breach of the contract that it sees;
// a ledger (ledger.go) knows the messages of one direction and what became of them; a pair (pair.go) joins a client
// and a server in a network. The list named checks says which parts the suite has; each is a file. A failing
// simulation logs its seed and last datagrams; rerun it with -seed=N, or more seeds with -seeds=N.
package codectest

import (
	"testing"
	"time"

	"tidegate/codec"
)

// Config says which codec to test and what its protocol can do. Only New is needed; the zero value of every other
// field means that the protocol lacks the feature.
type Config struct {
	// New returns fresh protocols for the two sides of one simulation. All their randomness comes from the seed.
	New func(seed uint64) (server, client codec.Protocol)
	// NearWrap is New with every counter of both sides starting just below where it wraps.
	NearWrap func(seed uint64) (server, client codec.Protocol)

	// Prefix begins every test payload, for protocols that reserve some first bytes (RakNet's packet IDs).
	Prefix []byte
	// MinPayload and MaxPayload bound the sizes in bytes that Send takes; with a message ID, it is 1. MaxPayload nil
	// means 1,000 bytes in every mode, and that ErrTooLarge is not tested.
	MinPayload int
	MaxPayload func(codec.Mode) int
	// Sizes are further payload sizes worth a test, such as those around the protocol's datagram boundary.
	Sizes []int
	// Pads are the values of Pad that messages and hellos may have; nil: only 0. PadsLow says that the unused bits
	// are the low ones of the last byte (RakNet), not the high ones (Riptide).
	Pads    []uint8
	PadsLow bool
	// IDs are the modes whose messages carry an application message ID.
	IDs codec.Modes
	// Channels is how many ordering channels there are; 0 and 1 mean only channel 0.
	Channels int
	// Repeats says that an Unreliable message may arrive as often as the network repeats its datagram.
	Repeats bool
	// Joins says that several messages sent may be received as one, their payloads joined.
	Joins bool
	// ModesBlur says that the wire does not tell the modes apart, so a message may be received in another one.
	ModesBlur bool

	// Word is all that a client can say where it cannot send test payloads (R-Type's keys); the suite then only counts how
	// often it arrives, and takes more of it, which may be part of the handshake. Nil: a client says what a server does.
	ClientPayload []byte
	// Greeting is what a server must say before its client can count as connected (R-Type without pings): payloads that
	// begin with other bytes than Prefix does. They are said until the client is connected, and not counted.
	Greeting [][]byte

	// HelloData and HelloIdentity say that Asked brings the client's Hello.Data and Hello.Identity.
	HelloData     bool
	HelloIdentity bool
	// ClientIDs says that the client is told its ID, given to Admit.
	ClientIDs bool
	// News says that the server can Announce other clients.
	News bool
	// CalmHandshake says that a handshake may fail by a single loss, so that bad weather begins only after it.
	CalmHandshake bool

	// Refusals, Kicks and Leaves are goodbyes worth a test: said by the server before Admit, said by the server
	// afterwards, and said by the client. Leaves nil means one: Closed, heard as Closed.
	Refusals, Kicks, Leaves []GoodbyeCase
	// Deferred are refusals of a client that waits for its grant, where the protocol is a codec.Granter.
	Deferred []GoodbyeCase
	// StatelessRefusal is what a client hears when the server answers its attempt by Refuse(ServerFull);
	// ReasonNone: the protocol has no such answer.
	StatelessRefusal codec.Reason
	// Timeout is by when a silent peer must have been noticed, and DialTimeout by when an attempt that nobody
	// answers must have been given up. Zero means 15 s.
	Timeout, DialTimeout time.Duration

	// Forges says of a datagram that somebody who forges the peer's address could change the session by it, because
	// the protocol authenticates nothing. The suite then does not ask that the session survives it.
	Forgeable func(datagram []byte) bool
	// Ends says of a datagram that, forged, it could end the session. The flood that measures memory leaves such ones
	// out, so that the session lives to grow; nil: none, but all that Forges names if sessions then end too soon.
	FatalIfForged func(datagram []byte) bool
	// MaxMemory is by how many bytes hostile datagrams may make both sides of a session grow. Zero means 4 MiB.
	MaxMemory uint64

	boundsPayload bool         // MaxPayload was given
	modes         []codec.Mode // of the protocol
}

// GoodbyeCase is a goodbye as one side says it and as the other hears it.
type GoodbyeCase struct{ Sent, Received codec.Goodbye }

// ReasonOnly is a goodbye of a reason alone.
func ReasonOnly(sent, received codec.Reason) GoodbyeCase {
	return GoodbyeCase{Sent: codec.Goodbye{Reason: sent}, Received: codec.Goodbye{Reason: received}}
}

// factory makes the protocols of a simulation, as Config.New does.
type factory = func(seed uint64) (server, client codec.Protocol)

// check is one part of the suite.
type check struct {
	name string
	run  func(t tb, c *Config)
}

// checks is the suite, but for traffic (traffic.go), which is a matrix of weathers and modes.
var checks = []check{
	{"protocol", checkProtocol},
	{"sizes", checkSizes},
	{"send-errors", checkSendErrors},
	{"bulk", checkBulk},
	{"queue-full", checkQueueFull},
	{"news", checkNews},
	{"confirm", checkConfirm},
	{"leave", checkLeaves},
	{"kick", checkKicks},
	{"refuse", checkRefusals},
	{"refuse-stateless", checkStatelessRefusal},
	{"grant", checkGrant},
	{"close-early", checkCloseEarly},
	{"close-both", checkCloseBoth},
	{"peer-vanishes", checkVanish},
	{"no-answer", checkNoAnswer},
	{"hostile", checkHostile},
	{"memory", checkMemory},
	{"proof", checkProof},
	{"optional", checkOptional},
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
	if c.MaxMemory == 0 {
		c.MaxMemory = 4 << 20
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
