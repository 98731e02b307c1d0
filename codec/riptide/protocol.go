// Package riptide speaks the protocol of the Riptide networking library for C#, as a server and as a client. It speaks
// versions 2.1.0 to 2.2.1 or, as Options.Version says, 2.0, which is another dialect (dialect.go). The package has no
// sockets, clocks or goroutines. docs/protocols/riptide.md describes the wire, its rules, and the differences between
// this package and the library.
//
// Start with Protocol, then read Conn in conn.go. Each concern has its file: messages (message.go, goodbye.go),
// duplicates and acknowledgements (window.go), resends (flight.go), notify (notify.go), the two ends' handshakes
// (server.go, client.go).
package riptide

import (
	"cmp"
	"net/netip"
	"time"

	"tidegate/codec"
)

// Version selects a dialect of the protocol.
type Version uint8

// The dialects. Neither understands a message of the other.
const (
	V22 Version = iota // Riptide 2.1.0 to 2.2.1, which understand each other
	V20                // Riptide 2.0
)

var names = [...]string{V22: "riptide-2.2", V20: "riptide-2.0"}

// The library's defaults.
const (
	defaultHeartbeat      = time.Second
	defaultTimeout        = 5 * time.Second
	defaultConnectTimeout = 10 * time.Second
	defaultAttempts       = 5
	defaultPayload        = 1225
	maxMessage            = defaultPayload + 6 // in 2.1+; messages of 2.0 are a byte shorter
)

// defaultQueued is our own default.
const defaultQueued = 1 << 20

// Options tune a Protocol. The zero value means the library's behaviour.
type Options struct {
	Version Version
	// HeartbeatInterval is the time between a client's heartbeats and connection attempts; 1 s if zero.
	HeartbeatInterval time.Duration
	// TimeoutTime is how long a connection lives without a heartbeat; 5 s if zero. A late heartbeat has half of
	// HeartbeatInterval more.
	TimeoutTime time.Duration
	// ConnectTimeout is how long either side waits for the server's answer to a connection attempt; 10 s if zero.
	ConnectTimeout time.Duration
	// MaxAttempts is how often a client sends Connect; 5 if zero.
	MaxAttempts int
	// MaxPayload is the library's setting of that name, in bytes; 1225 if zero. A message takes up to 6 bytes more, or 5
	// in 2.0. Both ends must agree on it, or a larger message can crash a peer of 2.0. The largest useful value is
	// codec.MaxDatagram minus those 6 bytes.
	MaxPayload int
	// Headroom is the bytes of a datagram that are not ours to send: of a header in front of it.
	Headroom int
	// MaxQueued bounds the bytes of messages that wait to be sent or acknowledged; 1 MiB if zero.
	MaxQueued int
	// MaxInFlight bounds the reliable messages under way, counted from the oldest unacknowledged one; at most 4096.
	// Riptide has no such bound, but its receivers lose count of more (docs/protocols/riptide.md#duplicates). Receivers
	// of 2.0 lose count of more than 16 after any loss, so the default is 16 there. Receivers of 2.1+ lose count of more
	// than 31 after a burst of losses. The default of 4096 accepts that risk, for the sake of rate.
	MaxInFlight int
	// IgnoreQuality keeps connections that need many transmissions per message. A reliable
	// message that 15 transmissions do not deliver ends a connection in any case. 2.0 never measures quality, and is more
	// patient with a message (docs/protocols/riptide.md#resends).
	IgnoreQuality bool
	// RelayFilter is the size of the server's MessageRelayFilter; zero: it has none. A server up to 2.2.1 ends when a
	// message's ID lies beyond it.
	RelayFilter int
	// Stream is for a connection over TCP. A stream loses nothing; many transmissions only mean that it stalls. 2.1+ is
	// then as patient as 2.0.
	Stream bool

	// patient says that slowSends follow maxSends.
	patient bool
	// maxDatagram is the size of the largest message, which is a datagram of its own.
	maxDatagram int
	// first is the first sequence number of every kind. It is 1 if zero, as in every real session. Tests of wrap-around
	// choose another.
	first seq
}

// isKiller reports whether a server ends by a message with an ID. It has a bit for each ID, in words of 32.
func (o *Options) isKiller(id uint16) bool {
	return o.RelayFilter > 0 && int(id) >= (o.RelayFilter+31)/32*32
}

func (o Options) withDefaults() Options {
	o.HeartbeatInterval = cmp.Or(o.HeartbeatInterval, defaultHeartbeat)
	o.TimeoutTime = cmp.Or(o.TimeoutTime, defaultTimeout)
	o.ConnectTimeout = cmp.Or(o.ConnectTimeout, defaultConnectTimeout)
	o.MaxAttempts = cmp.Or(o.MaxAttempts, defaultAttempts)
	o.MaxPayload = cmp.Or(o.MaxPayload, defaultPayload)
	o.MaxQueued = cmp.Or(o.MaxQueued, defaultQueued)
	o.patient = dialects[o.Version].patient || o.Stream
	o.IgnoreQuality = o.IgnoreQuality || o.patient
	o.maxDatagram = o.MaxPayload + dialects[o.Version].overhead
	o.first = cmp.Or(o.first, firstSeq)
	o.MaxInFlight = min(cmp.Or(o.MaxInFlight, dialects[o.Version].inFlight), windowSize)
	return o
}

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
