package raknet

import (
	"encoding/binary"
	"time"
)

// clockSamples is how many of the newest round trips the best is chosen from, as in stock RakNet.
const clockSamples = 5

// peerClock knows how far the peer's clock is ahead of ours. A message that begins with ID_TIMESTAMP carries a time of
// its sender's clock; whoever receives it puts it into the terms of his own
// (docs/protocols/raknet.md#timestamps).
type peerClock struct {
	samples [clockSamples]clockSample // oldest overwritten first
	next    uint8
	best    uint8
}

// clockSample is what one round trip says. A used one has a roundTrip above 0.
type clockSample struct {
	roundTrip time.Duration
	ahead     uint64 // of the peer's clock, in milliseconds; wraps for one that is behind ours
}

// sample takes a round trip that began at sent, in milliseconds of our clock, and was answered at answered of the
// peer's. Half of it is taken for each way, so the shortest is the most exact.
func (k *peerClock) sample(roundTrip time.Duration, sent, answered uint64) {
	half := uint64((roundTrip/2 + time.Millisecond/2) / time.Millisecond)
	k.samples[k.next] = clockSample{max(roundTrip, 1), answered - sent - half}
	k.best, k.next = k.next, (k.next+1)%clockSamples
	for i, s := range k.samples {
		if s.roundTrip > 0 && s.roundTrip < k.samples[k.best].roundTrip {
			k.best = uint8(i)
		}
	}
}

// minTimestamped is the identifier and the time. Stock RakNet adjusts the time even if no message follows.
const minTimestamped = 1 + 8

// adjust rewrites the time of a message that carries one, in place. Before the first sample it does nothing.
func (k *peerClock) adjust(payload []byte) {
	if len(payload) < minTimestamped || payload[0] != idTimestamp {
		return
	}
	theirs := binary.BigEndian.Uint64(payload[1:])
	binary.BigEndian.PutUint64(payload[1:], theirs-k.samples[k.best].ahead)
}

// sampleClock takes the first round trip from the handshake: the peer says its own time, and echoes one of ours.
func (c *Conn) sampleClock(now time.Duration, echoed, theirs uint64) {
	ours := c.milliseconds(now)
	if echoed < c.milliseconds(0) || echoed > ours {
		return // never said
	}
	c.clock.sample(time.Duration(ours-echoed)*time.Millisecond, echoed, theirs)
}
