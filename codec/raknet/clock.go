package raknet

import (
	"encoding/binary"
	"time"
)

// clockSamples is the number of newest round trips from which the best is chosen, as in stock RakNet.
const clockSamples = 5

// peerClock knows how far the peer's clock is ahead of ours. A message that begins with ID_TIMESTAMP carries a time of
// its sender's clock. The receiver converts it to its own clock (docs/protocols/raknet.md#timestamps).
type peerClock struct {
	samples [clockSamples]clockSample // the oldest is overwritten first
	next    uint8
	best    uint8
}

// clockSample is the result of one round trip. A used one has a RoundTrip above 0.
type clockSample struct {
	_         struct{} `cbor:",toarray"`
	RoundTrip time.Duration
	Ahead     uint64 // of the peer's clock, in milliseconds; wraps if it is behind ours
}

// sample takes a round trip. It began at sent, in milliseconds of our clock. The peer answered at answered of its
// clock. Half of the round trip counts for each direction, so the shortest one is the most exact.
func (k *peerClock) sample(roundTrip time.Duration, sent, answered uint64) {
	half := uint64((roundTrip/2 + time.Millisecond/2) / time.Millisecond)
	k.samples[k.next] = clockSample{RoundTrip: max(roundTrip, 1), Ahead: answered - sent - half}
	k.best, k.next = k.next, (k.next+1)%clockSamples
	for i, s := range k.samples {
		if s.RoundTrip > 0 && s.RoundTrip < k.samples[k.best].RoundTrip {
			k.best = uint8(i)
		}
	}
}

// minTimestamped is the size of the identifier and the time. Stock RakNet adjusts the time even without a message.
const minTimestamped = 1 + 8

// adjust converts the time in a message that carries one, in place. Before the first sample it does nothing.
func (k *peerClock) adjust(payload []byte) {
	if len(payload) < minTimestamped || payload[0] != idTimestamp {
		return
	}
	theirs := binary.BigEndian.Uint64(payload[1:])
	binary.BigEndian.PutUint64(payload[1:], theirs-k.samples[k.best].Ahead)
}

// sampleClock takes the first round trip from the handshake: the peer sends its own time, and echoes one of ours.
func (c *Conn) sampleClock(now time.Duration, echoed, theirs uint64) {
	ours := c.milliseconds(now)
	if echoed < c.milliseconds(0) || echoed > ours {
		return // never sent
	}
	c.clock.sample(time.Duration(ours-echoed)*time.Millisecond, echoed, theirs)
}
