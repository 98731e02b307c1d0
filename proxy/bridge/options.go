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
	RawMessageID uint16 // the ID for messages without one, towards a protocol with message IDs
	Queue        int    // the limit of bytes held back towards one peer to keep order; codecs have their own bound
	// Translator returns a Translator of payloads from near to far, or nil if both sides use the same. The field may be
	// nil.
	Translator func(near, far codec.Protocol) Translator
}

// Ordered says how ordered messages cross to a protocol without order.
type Ordered uint8

// Ways to treat order.
const (
	OrderedUnset  Ordered = iota // not set; two protocols that need it must set it
	OrderedStrict                // one message per round trip and channel: this keeps order, but lowers the rate
	OrderedFast                  // sent at once: this keeps the rate, and order only while the network keeps it
)

// Reliable says how reliable messages cross to a protocol that reports losses but does not resend.
type Reliable uint8

// Ways to treat reliability.
const (
	ReliableUnset  Reliable = iota // not set; two protocols that need it must set it
	ReliableResend                 // sent again until its arrival is known: at least once
	ReliableReport                 // sent once; losses are counted
)

// Envelope is the form of a message's ID in a protocol without message IDs.
type Envelope uint8

// Envelopes. docs/bridging.md has their layout.
const (
	EnvelopeID     Envelope = iota // packet byte where the protocol has one, ID, payload
	EnvelopeRaw                    // payload only
	EnvelopeFramed                 // as EnvelopeID, with a length before each ID: several messages in one
	// EnvelopeAggregate is EnvelopeFramed. In protocols with a packet byte, it also joins the messages of one turn in
	// one envelope.
	EnvelopeAggregate
)

// The names of the options' values, as in the configuration. The first value of Ordered and Reliable means "not set".
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

// String returns the envelope's name.
func (e Envelope) String() string { return enum.Name(envelopeNames, e) }

// Translator turns payloads of one protocol into another's, in one direction. It is safe for concurrent use.
type Translator interface {
	// String describes the translation in words.
	String() string
	// Translate returns the payload to send instead of m's. It appends that payload to dst and returns only the appended
	// bytes. After Passed it returns m's own payload.
	Translate(dst []byte, m codec.Message) (payload []byte, pad uint8, t Translation)
}

// Translation is the result of a Translator's work on a message.
type Translation uint8

// Translations. Only Translated and Passed come with a payload to send.
const (
	Translated     Translation = iota
	Passed                     // the message has no declaration: it goes unchanged
	Undeclared                 // the message has no declaration, and the route drops such messages
	Untranslatable             // the message does not match its declaration
)
