// Package riptide speaks the protocol of the Riptide networking library for C# on UDP, versions 2.1.0 to 2.2.1, as a
// server and as a client. It has no sockets, clocks or goroutines. The wire and its rules, and where this package
// differs from the library, are in docs/protocols/riptide.md.
//
// Start with Protocol, then Conn in conn.go. Each concern has its file: the bit string (bits.go), messages (wire.go,
// message.go, goodbye.go), duplicates and acknowledgements (window.go), resends (flight.go), notify (notify.go), the
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
}

// New returns the protocol with options o.
func New(o Options) *Protocol { return &Protocol{options: o.withDefaults()} }

// Name is "riptide-2.2".
func (p *Protocol) Name() string { return names[p.options.Version] }

// Modes are unreliable, reliable and notify.
func (p *Protocol) Modes() codec.Modes {
	return codec.ModesOf(codec.Unreliable, codec.Reliable, codec.Notify)
}

// IDs is codec.WordIDs: unreliable and reliable messages have an ID; with notify messages it is part of the payload.
func (p *Protocol) IDs() codec.IDs { return codec.WordIDs }

// Sniff reports whether the datagram is a Connect.
func (p *Protocol) Sniff(datagram []byte) bool {
	return len(datagram) > 0 && len(datagram) <= p.options.maxDatagram() && kindOf(datagram) == kindConnect
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
	return f.append(reply, p.options.maxDatagram(), nil, 0)
}

// Dial opens a connection to a server. The hello's data that is larger than a message makes it fail at once.
func (p *Protocol) Dial(now time.Time, _ netip.AddrPort, hello codec.Hello) codec.Conn {
	return dial(p, now, hello)
}

// maxDatagram is the size of the largest message, which is a datagram of its own.
func (o *Options) maxDatagram() int { return o.MaxPayload + messageOverhead }
