package enet

import (
	"cmp"
	"time"

	"tidegate/codec"
	"tidegate/internal/enum"
)

// Checksums says whether datagrams have a checksum. The wire does not negotiate it: both ends must agree.
type Checksums uint8

// Values of Checksums.
const (
	ChecksumsAuto Checksums = iota // a server follows each client's first datagram; a client sends no checksum
	ChecksumsOn                    // always; a server ignores clients without a checksum
	ChecksumsOff                   // never; a server ignores clients with a checksum
)

// Compression says whether datagrams are compressed by the range coder that the library has built in. A host with it
// takes plain datagrams, too. The wire does not negotiate it.
type Compression uint8

// Values of Compression.
const (
	CompressionAuto  Compression = iota // if the peer's handshake is compressed
	CompressionRange                    // a client compresses from the beginning; a server as with CompressionAuto
	CompressionOff                      // never; compressed datagrams are not understood
)

// The values' names in the configuration.
var (
	checksumNames    = []string{ChecksumsAuto: "auto", ChecksumsOn: "on", ChecksumsOff: "off"}
	compressionNames = []string{CompressionAuto: "auto", CompressionRange: "range-coder", CompressionOff: "off"}
)

// String returns the value as in the configuration.
func (c Checksums) String() string { return enum.Name(checksumNames, c) }

// UnmarshalText reads String's form.
func (c *Checksums) UnmarshalText(text []byte) error { return enum.Parse(checksumNames, text, c) }

// Choices lists the values that UnmarshalText reads.
func (Checksums) Choices() []string { return checksumNames }

// String returns the value as in the configuration.
func (c Compression) String() string { return enum.Name(compressionNames, c) }

// UnmarshalText reads String's form.
func (c *Compression) UnmarshalText(text []byte) error { return enum.Parse(compressionNames, text, c) }

// Choices lists the values that UnmarshalText reads.
func (Compression) Choices() []string { return compressionNames }

// Bounds and defaults of Options.
const (
	minMTU      = 576 // the library's bounds
	maxMTU      = 4096
	maxChannels = 255

	defaultMTU         = 1392
	defaultMaxMessage  = 6 << 20
	defaultMaxQueued   = 4 << 20
	defaultDialTimeout = 10 * time.Second
	defaultTimeout     = 30 * time.Second

	defaultTimeoutLimit   = 32
	defaultTimeoutMinimum = 5 * time.Second
)

// maxUnreliable bounds the bytes of an unreliable message: the loss of one fragment loses the whole message.
const maxUnreliable = 128 << 10

// Options tune a Protocol.
type Options struct {
	// Checksums says whether datagrams have a checksum.
	Checksums Checksums
	// Compression says whether datagrams are compressed.
	Compression Compression
	// Channels is the number of channels that a client requests, and the most that a server grants; 255 if zero.
	Channels int
	// MTU bounds the bytes of our datagrams; 1392 if zero, as in the library since 1.3.18. Both ends use the smaller one.
	MTU int
	// MaxMessage bounds the bytes of one message in either direction; 6 MiB if zero. The bound of unreliable ones is 128
	// KiB.
	MaxMessage int
	// MaxQueued bounds the bytes of messages that wait to be sent or acknowledged; 4 MiB if zero. A message counts for at
	// most half of it.
	MaxQueued int
	// DialTimeout is how long Dial waits for an answer, and a server for a client's answer; 10 s if zero.
	DialTimeout time.Duration
	// TimeoutLimit, TimeoutMinimum and Timeout are the three values of enet_peer_timeout; 32, 5 s and 30 s if zero, as in
	// the library. A silent peer counts as gone after the minimum, or later where round trips are long: the library sends
	// a command until its time-out has grown by the limit. Timeout bounds both.
	TimeoutLimit            int
	TimeoutMinimum, Timeout time.Duration
	// Seed makes IDs, sessions and times unguessable for an attacker that cannot read the connection's datagrams.
	Seed [32]byte

	coders *coders
	// base is added to all first numbers. It is 0 in every real session. Tests of wrap-around choose another.
	base uint16
	// follows is the last unreliable number of every channel before its first message, likewise.
	follows uint16
}

func (o Options) withDefaults() Options {
	o.Channels = min(cmp.Or(o.Channels, maxChannels), maxChannels)
	o.MTU = min(max(cmp.Or(o.MTU, defaultMTU), minMTU), maxMTU)
	o.MaxMessage = cmp.Or(o.MaxMessage, defaultMaxMessage)
	o.MaxQueued = cmp.Or(o.MaxQueued, defaultMaxQueued)
	o.DialTimeout = cmp.Or(o.DialTimeout, defaultDialTimeout)
	o.TimeoutLimit = cmp.Or(o.TimeoutLimit, defaultTimeoutLimit)
	o.TimeoutMinimum = cmp.Or(o.TimeoutMinimum, defaultTimeoutMinimum)
	o.Timeout = max(cmp.Or(o.Timeout, defaultTimeout), o.TimeoutMinimum)
	// Even with the smallest MTU a message must fit into the numbers that may be in flight on a channel.
	o.MaxMessage = min(o.MaxMessage, maxParts*fragmentRoom(minMTU, true))
	return o
}

// maxPayload returns the size in bytes of the largest message of a mode.
func (o *Options) maxPayload(m codec.Mode) int {
	if m.IsReliable() {
		return o.MaxMessage
	}
	return min(o.MaxMessage, maxUnreliable)
}
