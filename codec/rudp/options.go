package rudp

import (
	"cmp"
	"time"

	"tidegate/codec"
)

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
