// Package riptide speaks the protocol of the Riptide networking library for C#, as a server and as a client. It speaks
// versions 2.1.0 to 2.2.1 or, as Options.Version says, 2.0, which is another dialect (dialect.go). The package has no
// sockets, clocks or goroutines. docs/protocols/riptide.md describes the wire, its rules, and the differences between
// this package and the library.
//
// Start with Protocol, then read Conn in conn.go. Each concern has its file: the bit string (bits.go), messages
// (wire.go, message.go, ack.go, goodbye.go), duplicates and acknowledgements (window.go), resends (flight.go), notify
// (notify.go), the two ends' handshakes (server.go, client.go).
package riptide

import (
	"net/netip"
	"time"

	"tidegate/codec"
)

// Protocol is Riptide with its options. It is immutable and safe for concurrent use.
type Protocol struct {
	spec    codec.Spec
	options Options
	dialect *dialect
}

// New returns the protocol with options o.
func New(o Options) *Protocol {
	o = o.withDefaults()
	p := &Protocol{spec: specOf(o.Version), options: o, dialect: &dialects[o.Version]}
	p.spec.IdleTimeout = o.TimeoutTime
	return p
}

// specOf returns the Spec of a version. The first byte holds the type, and a client neither rejects nor announces
// others.
func specOf(v Version) codec.Spec {
	w := &dialects[v]
	s := codec.Spec{Name: names[v], Modes: w.modes, IDs: codec.IDBeside, Proof: codec.ProvedClientID}
	for b := range 256 { // types that a client sends
		switch k := w.kindOf([]byte{byte(b)}); {
		case k == kindConnect:
			s.Openings.Add(byte(b), byte(b))
			s.FirstBytes.Add(byte(b), byte(b))
		case k <= kindWelcome && k != kindReject:
			s.FirstBytes.Add(byte(b), byte(b))
		}
	}
	s.LoneOpenings = s.Openings // the rest of a Connect behind its type may be missing
	return s
}

// Spec implements codec.Protocol. Unreliable and reliable messages have an ID beside them. In notify messages, which
// 2.0 does not have, the ID is part of the payload. The client ID that the client's Welcome echoes proves an address.
func (p *Protocol) Spec() *codec.Spec { return &p.spec }

// Version returns the dialect that the protocol speaks.
func (p *Protocol) Version() Version { return p.options.Version }

// Sniff reports whether the datagram is a Connect.
func (p *Protocol) Sniff(datagram []byte) bool {
	return len(datagram) > 0 && len(datagram) <= p.options.maxDatagram && p.dialect.kindOf(datagram) == kindConnect
}

// Accept makes a Conn for each Connect: Riptide cannot prove an address before the session.
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

// Dial opens a connection to a server. The connection fails at once if the hello's data does not fit in a message.
func (p *Protocol) Dial(now time.Time, _ netip.AddrPort, hello codec.Hello) codec.Conn {
	return dial(p, now, hello)
}
