// Package rtype speaks the protocol of R-Type as a server and as a client. R-Type is a student's game. Its server
// mirrors its entities and components to its clients. The package speaks the dialect of the protocol document 0.0.1
// and those of the game itself. It has no sockets, clocks or goroutines. docs/protocols/rtype.md describes the wire,
// its dialects and the canonical messages that cross the contract.
//
// Start with Protocol, then read server.go and client.go, the two sides of a connection, and link.go, their common
// part. Each concern has its file: an instruction (message.go), the names of components (initial.go), canonical
// messages and dialects (message.go), the last game's handshake and the proof of a client's address (lobby.go,
// client.go), pings (link.go), and the world as a client should know it, with its replay (mirror.go, server_world.go).
package rtype

import (
	"bytes"
	"cmp"
	"maps"
	"net/netip"
	"time"

	"tidegate/codec"
)

// Dialect selects the format of messages. docs/protocols/rtype.md#dialects
type Dialect uint8

// The dialects.
const (
	Auto     Dialect = iota // the peer's, found out from its messages
	Document                // that of the protocol document 0.0.1
	Game16                  // the game's, with entities of 16 bits
	Game32                  // the game's, with entities of 32 bits
	GameLast                // the last game's, with a handshake of its own
)

var names = [...]string{
	Auto: "rtype", Document: "rtype-0.0.1", Game16: "rtype-16", Game32: "rtype-32", GameLast: "rtype-final",
}

// Era is the age of the game's own dialects. Their initialisation and their clients' messages changed over time.
type Era uint8

// The eras.
const (
	AnyEra Era = iota // the dialect's: Game16 is early, Game32 late, Auto finds out
	Early             // indexes of one byte; lone bytes are keys
	Late              // indexes of two bytes; no lone bytes
	Final             // GameLast only: opcodes in front of the initialisation, little-endian IDs
)

// Defaults. Real clients never answer pings, and a player may watch for minutes.
const (
	defaultPongTimeout   = 10 * time.Second
	defaultIdleTimeout   = 10 * time.Minute
	defaultServerTimeout = 90 * time.Second // longer than the interval between the late server's pings
	defaultHelloInterval = time.Second
	defaultHellos        = 8
	defaultQueued        = 256 << 10
	defaultWorld         = 256 << 10
	defaultRate          = 1000
)

var (
	defaultHello  = []byte("start")
	lastHello     = []byte{openLobby}
	documentHello = []byte{0x01} // right key released: the only message of the document that changes nothing
)

// Options tune a Protocol. The zero value is the automatic dialect with the game's own times. New copies referenced
// data.
type Options struct {
	Dialect Dialect
	// Era overrides the era of Game16 and Game32.
	Era Era
	// Hello is the client's first message, repeated until the answer; "start" if nil, in Document 01.
	Hello []byte
	// Components holds the data size of components in bytes, by name. An update of another component takes the rest of
	// its datagram.
	Components map[string]int
	// PingInterval is the silence of a client after which the server pings it, if its dialect has pings; never if zero.
	// PongTimeout is how long the client then has to send any message; 10 s if zero.
	PingInterval, PongTimeout time.Duration
	// IdleTimeout is the silence of a client that ends a session, and ServerTimeout that of a server; 10 min and 90 s if
	// zero.
	IdleTimeout, ServerTimeout time.Duration
	// HelloInterval is the time between a client's Hellos. The client sends MaxHellos of them; 1 s and 8 if zero.
	HelloInterval time.Duration
	MaxHellos     int
	// Refresh is how often a server repeats the state of its world to a client, to repair losses; never if zero.
	Refresh time.Duration
	// Copies is how often a client of Game16 or Game32 receives each part of the initialisation, so that it survives
	// losses; 1 if zero. docs/protocols/rtype/repair.md
	Copies int
	// Seed makes the secrets unguessable that a client receives at its own address. If it is zero, clients cannot prove
	// their address.
	Seed [32]byte
	// MaxQueued bounds the bytes of messages that wait to be sent. MaxWorld bounds the bytes of a server's mirror of its
	// world. Both are 256 KiB if zero.
	MaxQueued, MaxWorld int
	// MaxRate is the number of messages that a client may send per second, or at once after a second's silence; 1000 if
	// zero.
	MaxRate int

	last *lastServers // made by New
}

func (o Options) withDefaults() Options {
	o.PongTimeout = cmp.Or(o.PongTimeout, defaultPongTimeout)
	o.IdleTimeout = cmp.Or(o.IdleTimeout, defaultIdleTimeout)
	o.ServerTimeout = cmp.Or(o.ServerTimeout, defaultServerTimeout)
	o.HelloInterval = cmp.Or(o.HelloInterval, defaultHelloInterval)
	o.MaxHellos = cmp.Or(o.MaxHellos, defaultHellos)
	o.MaxQueued = cmp.Or(o.MaxQueued, defaultQueued)
	o.MaxWorld = cmp.Or(o.MaxWorld, defaultWorld)
	o.MaxRate = cmp.Or(o.MaxRate, defaultRate)
	o.Copies = cmp.Or(o.Copies, 1)
	o.Components = maps.Clone(o.Components)
	switch {
	case o.Hello != nil:
		o.Hello = append([]byte(nil), o.Hello...)
	case o.Dialect == Document:
		o.Hello = documentHello
	case o.Dialect == GameLast:
		o.Hello = lastHello
	default:
		o.Hello = defaultHello
	}
	return o
}

// format returns the initial format of the options' dialect.
func (o *Options) format() format {
	f := formats[o.Dialect]
	if o.Era != AnyEra && !f.document && !f.isFinal() {
		f.era = o.Era
	}
	return f
}

// Protocol is R-Type with its options. It is immutable and safe for concurrent use.
type Protocol struct {
	spec    codec.Spec
	options Options
}

// New returns the protocol with options o.
func New(o Options) *Protocol {
	p := &Protocol{options: o.withDefaults()}
	p.options.last = new(lastServers)
	p.spec = codec.Spec{
		Name: names[o.Dialect], Modes: codec.ModesOf(codec.Unreliable), Closed: true, ServerFirst: true,
		IdleTimeout: p.options.IdleTimeout,
	}
	if o.Seed != [32]byte{} { // the document's clients, and those of 16 bits, cannot echo a secret
		p.spec.Proof = codec.ProvedEcho
	}
	if p.hasKeys() {
		p.spec.LoneOpenings.Add(0, maxKey)
	}
	if hello := p.options.Hello; len(hello) == 1 && p.isHello(hello) {
		p.spec.LoneOpenings.Add(hello[0], hello[0])
	}
	return p
}

// Spec implements codec.Protocol. The name is "rtype", or "rtype" with the dialect.
func (p *Protocol) Spec() *codec.Spec { return &p.spec }

// Sniff reports whether the datagram is a Hello of the game's clients, or one of the document's instructions.
func (p *Protocol) Sniff(datagram []byte) bool { return p.isHello(datagram) || p.isKey(datagram) }

func (p *Protocol) isHello(d []byte) bool {
	return p.options.Dialect != Document && len(d) > 0 && bytes.Equal(d, p.options.Hello)
}

func (p *Protocol) isKey(d []byte) bool {
	return p.hasKeys() && len(d) == 1 && d[0] <= maxKey
}

// hasKeys reports whether a key opens a session, as in the document.
func (p *Protocol) hasKeys() bool { return p.options.Dialect == Document || p.options.Dialect == Auto }

// Accept makes a Conn for each new client. A proof of address comes later, if at all.
func (p *Protocol) Accept(now time.Time, from netip.AddrPort, datagram, reply []byte) (codec.Conn, []byte, error) {
	switch {
	case p.isHello(datagram):
		return accept(&p.options, now, p.options.format(), nil, p.options.newSecret(now, from)), reply, nil
	case p.isKey(datagram):
		secret := p.options.newSecret(now, from)
		return accept(&p.options, now, formats[Document], bytes.Clone(datagram), secret), reply, nil
	}
	return nil, reply, codec.ErrMalformed
}

// Refuse appends the goodbye of the game's server. The document has none.
func (p *Protocol) Refuse(datagram, reply []byte, _ codec.Reason) []byte {
	if p.isHello(datagram) {
		return append(reply, goodbye...)
	}
	return reply
}

// Dial opens a connection to a server. R-Type's Hello carries none of the caller's data.
func (p *Protocol) Dial(now time.Time, to netip.AddrPort, hello codec.Hello) codec.Conn {
	c := dial(&p.options, now)
	c.server, c.held = to, hello.Held
	return c
}
