// Package rudp speaks RUDP as a server and as a client. RUDP is the protocol of the C# library of that name by
// renatommartins, version 0.12.0. The package has no sockets, clocks or goroutines. docs/protocols/rudp.md describes
// the wire, its rules, and the differences between this package and the library.
//
// RUDP sends one packet each period. The packet holds the messages queued so far, joined without separators. RUDP
// never resends, but reports for each packet whether it arrived. Start with Protocol, then read Conn in conn.go. Each
// concern has its file: packets, sequence numbers and acknowledgements (packet.go), the packets that we sent
// and waiting messages (flight.go), the two ends' handshakes (client.go).
package rudp

import (
	"cmp"
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

// specOf returns the Spec of a Protocol with the given options. Messages of one period arrive as one. The three modes
// look the same on the wire. A received message counts as unreliable-sequenced, since late packets are dropped. Every
// packet begins with the application's ID. The acknowledgement of a first sequence number proves an address, but only
// if a Seed makes that number unguessable.
func specOf(o *Options) codec.Spec {
	s := codec.Spec{
		Name: "rudp", Modes: modes, Joins: true, KicksNone: true, Proof: codec.ProvedConnect,
		FirstBytes: codec.ByteSetOf(byte(o.AppID >> 8)),
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
	return len(datagram) == overhead && q.parse(datagram) == nil && q.app == p.options.AppID && q.kind == kindRequest &&
		q.seq == p.options.base
}

// Accept makes a Conn for each valid request. It sends no stateless answer. The client proves its address afterwards,
// when it acknowledges our first packet.
func (p *Protocol) Accept(now time.Time, from netip.AddrPort, datagram, reply []byte) (codec.Conn, []byte, error) {
	if !p.Sniff(datagram) {
		return nil, reply, codec.ErrMalformed
	}
	return accept(p, now, from), reply, nil
}

// Refuse appends a Refuse packet, which carries no reason.
func (p *Protocol) Refuse(datagram, reply []byte, _ codec.Reason) []byte {
	if !p.Sniff(datagram) {
		return reply
	}
	q := packet{app: p.options.AppID, seq: p.options.base, kind: kindRefuse}
	return q.append(reply)
}

// Dial opens a connection to a server. RUDP carries none of the hello's data.
func (p *Protocol) Dial(now time.Time, _ netip.AddrPort, _ codec.Hello) codec.Conn {
	return dial(p, now)
}

// Defaults of Options.
const (
	defaultRate        = 100 // as in the library's examples
	defaultMaxPayload  = codec.MaxDatagram - overhead
	defaultMaxJoined   = 1400 - overhead
	defaultMaxQueued   = 1 << 20
	defaultDialTimeout = 3 * time.Second
)

// Options tune a Protocol. The zero value fits a game with AppID 0.
type Options struct {
	// AppID is the application's ID. Both ends must use the same one.
	AppID uint16
	// Rate is the number of packets that each end of a session sends per second; 100 if zero. A server tells it to its
	// clients. A session survives while an acknowledgement takes less than 33 packets: 330 ms at 100 Hz, 1.65 s at 20 Hz.
	Rate uint8
	// MaxPayload bounds the bytes of one message; 4080 if zero, the largest size that the library can receive. A datagram
	// longer than the path's MTU travels in IP fragments.
	MaxPayload int
	// MaxJoined bounds the bytes of messages that share one packet; 1384 if zero, for datagrams of 1400 bytes. A longer
	// message travels in a packet of its own.
	MaxJoined int
	// MaxQueued bounds the bytes of messages that wait for a packet; 1 MiB if zero.
	MaxQueued int
	// DialTimeout is how long Dial waits for an answer; 3 s if zero. The library's clients wait 500 ms.
	DialTimeout time.Duration
	// Seed makes the first sequence numbers of servers unguessable, so that a client with a forged address cannot
	// acknowledge them. With the zero value the numbers start at 0, as in the library.
	Seed [32]byte

	// base is added to all first sequence numbers. It is 0 in every real session. Tests of wrap-around choose another.
	base seq
}

func (o Options) withDefaults() Options {
	o.Rate = cmp.Or(o.Rate, defaultRate)
	o.MaxPayload = min(cmp.Or(o.MaxPayload, defaultMaxPayload), defaultMaxPayload)
	o.MaxJoined = min(cmp.Or(o.MaxJoined, defaultMaxJoined), defaultMaxPayload)
	o.MaxQueued = cmp.Or(o.MaxQueued, defaultMaxQueued)
	o.DialTimeout = cmp.Or(o.DialTimeout, defaultDialTimeout)
	return o
}
