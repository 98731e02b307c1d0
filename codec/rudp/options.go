package rudp

import (
	"time"

	"tidegate/codec"
)

// Defaults of Options.
const (
	defaultRate        = 100 // the library's own examples
	defaultMaxPayload  = codec.MaxDatagram - overhead
	defaultMaxJoined   = 1400 - overhead
	defaultMaxQueued   = 1 << 20
	defaultDialTimeout = 3 * time.Second
)

// Options tune a Protocol. The zero value is that of a game with AppID 0.
type Options struct {
	// AppID is the application's ID, which both ends must agree on.
	AppID uint16
	// Rate is how many packets a second both ends of a session send, as a server tells its clients; 100 if zero. A
	// session lives as long as an acknowledgement takes less than 33 packets: 330 ms at 100 Hz, 1.65 s at 20 Hz.
	Rate uint8
	// MaxPayload bounds the bytes of one message; 4080 if zero, which is the most that the library can receive.
	// Messages that make a datagram longer than the path's MTU travel in fragments of IP.
	MaxPayload int
	// MaxJoined bounds the bytes of messages that are joined in one packet; 1384 if zero, for datagrams of 1400 bytes.
	// A message longer than that goes in a packet of its own.
	MaxJoined int
	// MaxQueued bounds the bytes of messages that wait for a packet; 1 MiB if zero.
	MaxQueued int
	// DialTimeout is how long Dial waits for an answer; 3 s if zero. The library's clients wait for 500 ms.
	DialTimeout time.Duration
	// Seed makes the first sequence numbers of servers unguessable, so that a client whose address is forged cannot
	// acknowledge them. With the zero value they are 0, as in the library.
	Seed [32]byte

	// base is added to all first sequence numbers: 0 in every real session. Tests of wrap-around choose another.
	base seq
}

func (o Options) withDefaults() Options {
	o.Rate = orDefault(o.Rate, defaultRate)
	o.MaxPayload = min(orDefault(o.MaxPayload, defaultMaxPayload), defaultMaxPayload)
	o.MaxJoined = min(orDefault(o.MaxJoined, defaultMaxJoined), defaultMaxPayload)
	o.MaxQueued = orDefault(o.MaxQueued, defaultMaxQueued)
	o.DialTimeout = orDefault(o.DialTimeout, defaultDialTimeout)
	return o
}

func orDefault[T uint8 | int | time.Duration](v, fallback T) T {
	if v == 0 {
		return fallback
	}
	return v
}
