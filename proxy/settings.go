package proxy

import (
	"net/netip"
	"time"

	"tidegate/codec"
	"tidegate/internal/filter"
	"tidegate/internal/upstream"
	"tidegate/ratelimit"
	"tidegate/session"
)

// Settings is what a proxy is made of: plain values, filled from the configuration.
type Settings struct {
	Listeners        []Listener
	Limits           session.Limits // per Relay
	HandshakeTimeout time.Duration  // a session that is not established by then is given up
	IdleTimeout      time.Duration  // an established session whose client is silent for so long is given up
	DrainGrace       time.Duration  // how long sessions may go on at shutdown before they are told goodbye
	DrainTimeout     time.Duration  // how long goodbyes may take at shutdown
	// Answers bounds those of each listener that go to strangers and are larger than what they answer, per Relay: whoever
	// forges a victim's address would have them flooded. Nothing is bounded if Overall is 0.
	Answers ratelimit.Rates
	// Unproved bounds what goes to clients without proof of their address.
	Unproved Unproved
	Filter   *filter.Set // rules about sources and messages; nil: none
	// Bounds are the limits of rates and queues, at most one of each quantity and scope, and Networks what counts as one
	// in those by network; per Relay.
	Bounds   []ratelimit.Limit
	Networks ratelimit.Networks
}

// Listener is one address clients come to.
type Listener struct {
	Name      string
	Addr      netip.AddrPort
	Transport Transport
	// ProxiesFrom are the networks of proxies whose PROXY protocol headers are believed: a session is that of the client
	// they name. Not of a stream.
	ProxiesFrom []netip.Prefix
	Protocols   []codec.Protocol // the first whose Sniff says yes gets the newcomer
	Route       *Route
	Pong        *Pong // what its protocols say of the upstream's servers; nil where they speak for themselves
}

// Route says where a listener's clients go and how their messages cross.
type Route struct {
	Name     string
	Upstream *Upstream
	Mode     Mode // in ModeRelay what follows does not matter
	Admit    Admit
	Failover Failover
	Ordered  Ordered
	Reliable Reliable
	// AllowLossy accepts every weakening of delivery, and drops rather than closes where a message is too large.
	AllowLossy   bool
	Envelope     Envelope
	PacketID     byte   // first byte of enveloped messages; PacketID+1 marks those without an ID
	RawMessageID uint16 // ID of messages that come without one, towards a protocol whose messages have IDs
	Queue        int    // bytes held back towards one peer to keep order; codecs have their own bound
	// Translator returns what turns the payloads of near into those of far, or nil where they are the same. May be nil.
	Translator func(near, far codec.Protocol) Translator
	Pings      Pings // for the listeners' Pongs, of an upstream whose protocol is a codec.Pinger
}

// Translator turns payloads of one protocol into another's, in one direction. It is safe for concurrent use.
type Translator interface {
	// String says in words what becomes of messages.
	String() string
	// Translate returns what to send in place of m's payload: bytes appended to dst, which it returns without what dst
	// held before, or m's own after Passed.
	Translate(dst []byte, m codec.Message) (payload []byte, pad uint8, t Translation)
}

// Translation is what a Translator made of a message.
type Translation uint8

// Translations. Only after Translated and Passed is there a payload to send.
const (
	Translated     Translation = iota
	Passed                     // nothing is declared about it: it goes as it is
	Undeclared                 // nothing is declared about it, and the route wants none of those
	Untranslatable             // it is not what was declared about it
)

// Upstream is a set of equal game servers.
type Upstream struct {
	Name      string
	Protocol  codec.Protocol
	Transport Transport
	Headers   Headers // not of a stream
	Checks    Checks
	Servers   []upstream.Target // beside those that Server.Discovered tells of
	Options   upstream.Options
	// Sources are the addresses of this machine that sessions are spread over, to servers of their family; none: the
	// system chooses.
	Sources []netip.Addr
	Pace    Pace // of each source towards each server
}

// Admit is when the upstream is asked about a newcomer.
type Admit uint8

// Ways to admit.
const (
	// UpstreamFirst dials the upstream before the client is let in, so that the client hears the upstream's refusal,
	// or its own client ID, in its own protocol.
	UpstreamFirst Admit = iota
	// ProofFirst lets the client in, and dials the upstream once the client has proved its address.
	ProofFirst
)

// Ordered is what happens to ordered messages towards a protocol without order.
type Ordered uint8

// Ways to treat order.
const (
	OrderedUnset  Ordered = iota // not said; Settings of a pair that needs it must say
	OrderedStrict                // one message per round trip and channel: order is kept, rate is not
	OrderedFast                  // sent at once: rate is kept, order only while the network keeps it
)

// Reliable is what happens to reliable messages towards a protocol that tells what was lost but does not resend it.
type Reliable uint8

// Ways to treat reliability.
const (
	ReliableUnset  Reliable = iota // not said; Settings of a pair that needs it must say
	ReliableResend                 // sent again until it is known to have arrived: at least once
	ReliableReport                 // sent once; what is lost is counted
)

// Envelope is how a message ID travels in a protocol whose messages have none.
type Envelope uint8

// Envelopes. docs/bridging.md has their layout.
const (
	EnvelopeID     Envelope = iota // packet byte where the protocol has one, ID, payload
	EnvelopeRaw                    // payload only
	EnvelopeFramed                 // as EnvelopeID with a length before each ID: several messages in one
	// EnvelopeAggregate is EnvelopeFramed, and joins what is sent at the same time in one message where messages begin
	// with a packet byte.
	EnvelopeAggregate
)
