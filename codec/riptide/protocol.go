// Package riptide speaks the protocol of the Riptide networking library for C# on UDP, as a server and as a client:
// versions 2.1.0 to 2.2.1 or, as Options.Version says, 2.0, which is another dialect (dialect.go). It has no sockets, clocks or goroutines. The wire and its rules, and where this package
// differs from the library, are in docs/protocols/riptide.md.
//
// Start with Protocol, then Conn in conn.go. Each concern has its file: the bit string (bits.go), messages (wire.go,
// message.go, ack.go, goodbye.go), duplicates and acknowledgements (window.go), resends (flight.go), notify (notify.go), the
// two ends' handshakes (server.go, client.go).
package riptide

import (
	"net/netip"
	"time"

	"tidegate/codec"
)

// Protocol is Riptide with its options. It is immutable and safe for concurrent use.
type Protocol struct {
	options Options
	dialect *dialect
}

// New returns the protocol with options o.
func New(o Options) *Protocol {
	return &Protocol{options: o.withDefaults(), dialect: &dialects[o.Version]}
}

// Name is "riptide-2.2" or "riptide-2.0".
func (p *Protocol) Name() string { return names[p.options.Version] }

// Modes are unreliable, reliable and, but for 2.0, notify.
func (p *Protocol) Modes() codec.Modes { return p.dialect.modes }

// IDs is codec.WordIDs: unreliable and reliable messages have an ID; with notify messages it is part of the payload.
func (p *Protocol) IDs() codec.IDs { return codec.WordIDs }

// Sniff reports whether the datagram is a Connect.
func (p *Protocol) Sniff(datagram []byte) bool {
	return len(datagram) > 0 && len(datagram) <= p.options.maxDatagram && p.dialect.kindOf(datagram) == kindConnect
}

// Accept makes a Conn of every Connect: Riptide cannot prove an address before the session.
func (p *Protocol) Accept(now time.Time, _ netip.AddrPort, datagram, reply []byte) (codec.Conn, []byte, error) {
	if !p.Sniff(datagram) {
		return nil, reply, codec.ErrMalformed
	}
	return accept(p, now, datagram), reply, nil
}

// Refuse appends one Reject.
func (p *Protocol) Refuse(datagram, reply []byte, reason codec.Reason) []byte {
	if !p.Sniff(datagram) {
		return reply
	}
	f := rejection(codec.Goodbye{Reason: reason})
	return f.append(p.dialect, reply, p.options.maxDatagram, nil, 0)
}

// Dial opens a connection to a server. The hello's data that is larger than a message makes it fail at once.
func (p *Protocol) Dial(now time.Time, _ netip.AddrPort, hello codec.Hello) codec.Conn {
	return dial(p, now, hello)
}

// Proof is the client ID that the client's Welcome gives back.
func (p *Protocol) Proof() codec.Proof { return codec.ProvedClientID }
