package bridge

import (
	"time"

	"tidegate/codec"
	"tidegate/internal/policy"
)

// Options say how messages cross from one protocol to another, and back.
type Options struct {
	Ordered  policy.Ordered
	Reliable policy.Reliable
	// AllowLossy accepts every weakening of delivery. A message that is too large is dropped, and its session goes on.
	AllowLossy   bool
	Envelope     policy.Envelope
	PacketID     byte   // first byte of enveloped messages; PacketID+1 marks messages without an ID
	RawMessageID uint16 // the ID for messages without one, towards a protocol with message IDs
	Queue        int    // the limit of bytes held back towards one peer to keep order; codecs have their own bound
	// Map says how messages of some IDs cross, and Unmapped what becomes of all others of pairs of protocols with rows.
	Map      []Row
	Unmapped policy.Unmapped
	// Translator returns a Translator of payloads from near to far, or nil if both sides use the same. The field may be
	// nil.
	Translator func(near, far codec.Protocol) Translator
}

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

// Program is a module of an operator: code that sees each message of a route before the message crosses.
type Program interface {
	// Loop returns the instance of a loop, by the loop's number.
	Loop(number int) Module
}

// Module is the instance of a Program in one loop. It is not safe for concurrent use.
type Module interface {
	// Handle gives the module a message. It reports whether the message goes on as it is. An error means that the module
	// has failed, or is not ready. Then it has sent nothing.
	Handle(c *Call) (passes bool, err error)
	// Ended tells the module that a session which it has seen has ended.
	Ended(now time.Time, session uint64)
}

// Call is a message for a Module, and what the module does with it.
type Call struct {
	Now     time.Time
	From    policy.Direction // the sender
	Session uint64
	Message *codec.Message
	State   *[]byte // what the module keeps with the session, at most MaxState bytes
	// Sent has the messages that the module has sent, in order. They are lent until the next Handle.
	Sent []Sent
}

// MaxState bounds the bytes that a module keeps with a session.
const MaxState = 4096

// Sent is a message from a module. It crosses as if From had sent it.
type Sent struct {
	From    policy.Direction
	Message codec.Message
}
