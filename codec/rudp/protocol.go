// Package rudp speaks RUDP, the protocol of the C# library of that name by renatommartins, version 0.12.0, as a server
// and as a client. It has no sockets, clocks or goroutines. The wire and its rules, and where this package differs from
// the library, are in docs/protocols/rudp.md.
//
// RUDP sends one packet each period, with whatever was queued by then joined without separators; it never resends, but
// says of each packet whether it arrived. Start with Protocol, then Conn in conn.go. Each concern has its file: packets
// (packet.go), what was received (acks.go), what became of what we sent (flight.go), what waits for its packet
// (outbox.go), the two ends' handshakes (server.go, client.go).
package rudp

import (
	"net/netip"
	"time"

	"tidegate/codec"
)

// Protocol is RUDP with its options. It is immutable and safe for concurrent use.
type Protocol struct {
	spec    codec.Spec
	options Options
}

// New returns the protocol with options o.
func New(o Options) *Protocol { return &Protocol{spec: specOf(&o), options: o.withDefaults()} }

// specOf returns the Spec of a Protocol with given options. Messages of one period arrive as one. The three modes are one on
// the wire: a received message is called unreliable-sequenced, since late packets are dropped. Every packet, the first
// included, begins with the application's ID. What proves an address is the acknowledgement of a first sequence number,
// which only a Seed makes unguessable.
func specOf(o *Options) codec.Spec {
	s := codec.Spec{
		Name: "rudp", Modes: modes, Joins: true, Proof: codec.ProvedConnect, FirstBytes: codec.ByteSetOf(byte(o.AppID >> 8)),
	}
	if o.Seed == [32]byte{} {
		s.Proof = codec.NoProof
	}
	return s
}

const modes = codec.Modes(1<<codec.Unreliable | 1<<codec.UnreliableSequenced | 1<<codec.Notify)

// Spec implements codec.Protocol.
func (p *Protocol) Spec() *codec.Spec { return &p.spec }

// Sniff reports whether the datagram is a request of our application.
func (p *Protocol) Sniff(datagram []byte) bool {
	var q packet
	return len(datagram) == overhead && q.parse(datagram) == nil && p.isRequest(&q)
}

// Accept makes a Conn of every valid request; nothing else is answered. The client proves its address afterwards, by
// acknowledging our first packet.
func (p *Protocol) Accept(now time.Time, from netip.AddrPort, datagram, reply []byte) (codec.Conn, []byte, error) {
	if !p.Sniff(datagram) {
		return nil, reply, codec.ErrMalformed
	}
	return accept(p, now, from), reply, nil
}

// Refuse appends a Refuse packet, which cannot say why.
func (p *Protocol) Refuse(datagram, reply []byte, _ codec.Reason) []byte {
	if !p.Sniff(datagram) {
		return reply
	}
	q := packet{app: p.options.AppID, seq: p.options.base, kind: kindRefuse}
	return q.append(reply)
}

// Dial opens a connection to a server. RUDP carries nothing of the hello.
func (p *Protocol) Dial(now time.Time, _ netip.AddrPort, _ codec.Hello) codec.Conn {
	return dial(p, now)
}

func (p *Protocol) isRequest(q *packet) bool {
	return q.app == p.options.AppID && q.kind == kindRequest && q.seq == p.options.base
}
