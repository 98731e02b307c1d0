package bridge

import (
	"tidegate/codec"
	"tidegate/internal/enum"
)

// Options say how messages cross from one protocol to another, and back.
type Options struct {
	Ordered  Ordered
	Reliable Reliable
	// AllowLossy accepts every weakening of delivery. A message that is too large is dropped, and its session goes on.
	AllowLossy   bool
	Envelope     Envelope
	PacketID     byte   // first byte of enveloped messages; PacketID+1 marks messages without an ID
	RawMessageID uint16 // ID of messages that come without one, towards a protocol whose messages have IDs
	Queue        int    // bytes held back towards one peer to keep order; codecs have their own bound
	// Translator returns what turns the payloads of near into those of far, or nil where they are the same. May be nil.
	Translator func(near, far codec.Protocol) Translator
}

// Ordered is what happens to ordered messages towards a protocol without order.
type Ordered uint8

// Ways to treat order.
const (
	OrderedUnset  Ordered = iota // not said; the Options of two protocols that need it must say
	OrderedStrict                // one message per round trip and channel: order is kept, rate is not
	OrderedFast                  // sent at once: rate is kept, order only while the network keeps it
)

// Reliable is what happens to reliable messages towards a protocol that tells what was lost but does not resend it.
type Reliable uint8

// Ways to treat reliability.
const (
	ReliableUnset  Reliable = iota // not said; the Options of two protocols that need it must say
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

// Names of the options' values, as in the configuration. The first of Ordered and Reliable is not said.
var (
	orderedNames  = []string{"", "strict", "fast"}
	reliableNames = []string{"", "resend", "report"}
	envelopeNames = []string{"id", "raw", "framed", "aggregate"}
)

// UnmarshalText reads the name of a way to treat order.
func (o *Ordered) UnmarshalText(text []byte) error { return enum.Parse(orderedNames, text, o) }

// UnmarshalText reads the name of a way to treat reliability.
func (r *Reliable) UnmarshalText(text []byte) error { return enum.Parse(reliableNames, text, r) }

// UnmarshalText reads the envelope's name.
func (e *Envelope) UnmarshalText(text []byte) error { return enum.Parse(envelopeNames, text, e) }

// String is the envelope's name.
func (e Envelope) String() string { return enum.Name(envelopeNames, e) }

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
