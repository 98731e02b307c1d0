package config

import "tidegate/codec"

// Traits are the facts about a protocol that configuration checks need.
type Traits struct {
	Ordered   bool // the protocol can keep messages in order
	Sequenced bool // it can drop messages older than the last delivered one
	Reliable  bool // it can resend until acknowledged
	IDs       bool // its messages have an ID beside the payload
	FirstByte bool // the first byte of its messages names them
	Modes     codec.Modes
	Channels  int  // its number of ordering channels
	Server    bool // listeners can use it
	Client    bool // upstreams can use it
	Stream    bool // TCP can carry it
	Reports   bool // it can report losses, and drops messages older than the last delivered one
	Joins     bool // several messages may arrive as one
	Closed    bool // it carries only its own messages
	Pings     bool // its servers answer pings with a server list text
	Edge      bool // its clients join over HTTP
	Opaque    bool // it stands for any protocol, also an unknown one; it can be relayed, not terminated
	// Accepts names other protocols whose new clients this one accepts if it is listed first. true means all of them.
	Accepts map[string]bool
	// Inputs names the inputs that its players send and its servers accept. nil means any.
	Inputs []string
	// Openers are the bytes that, alone in a datagram, look like a new client.
	Openers codec.ByteSet
	// Types is nil unless some dialect encodes payloads differently. It returns the remedy for a type that this dialect
	// does not know, or "".
	Types func(name string) (want string)
}

// validator is one run of validate.
type validator struct {
	*Config
	*report
	known map[string]Traits
}
