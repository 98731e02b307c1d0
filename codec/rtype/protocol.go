// Package rtype speaks the protocol of R-Type as a server and as a client. R-Type is a student's game. Its server
// mirrors its entities and components to its clients. The package speaks the dialect of the protocol document 0.0.1
// and those of the game itself. It has no sockets, clocks or goroutines. docs/protocols/rtype.md describes the wire,
// its dialects and the canonical messages that cross the contract.
//
// Start with Protocol, then read server.go and client.go, the two sides of a connection, and link.go, their common
// part. Each concern has its file: an instruction (instruction.go), the names of components (initial.go, gather.go),
// canonical messages (message.go), dialects (format.go), the last game's handshake (lobby.go, client_lobby.go), the
// proof of a client's address (secret.go), pings (pinger.go), the world as a client should know it (mirror.go,
// deletions.go) and its replay (replay.go).
package rtype

import (
	"bytes"
	"net/netip"
	"time"

	"tidegate/codec"
)

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
