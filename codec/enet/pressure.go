package enet

import (
	"time"

	"tidegate/codec"
)

var _ codec.Throttler = (*Conn)(nil)

// How long acknowledgements wait under pressure. A peer of the library has at most 64 KiB that are not acknowledged,
// so it sends so much in each of these times. It gives up after 5 s without an acknowledgement at the earliest.
const (
	hesitation = 100 * time.Millisecond
	refusal    = time.Second
)

// Throttle implements codec.Throttler. Nothing is refused: the peer's window stops it.
func (c *Conn) Throttle(_ time.Time, p codec.Pressure) {
	if c.state != connected {
		p = codec.NoPressure
	}
	c.pressure = p
}

// Fill implements codec.Throttler.
func (c *Conn) Fill() float64 {
	return max(float64(c.out.counted())/float64(c.options.MaxQueued), float64(c.out.count)/maxMessages)
}

// Waiting implements codec.Throttler.
func (c *Conn) Waiting() int { return c.in.held }

// acksAt returns from when on the waiting acknowledgements may leave. They do not wait once the peer has said goodbye.
func (c *Conn) acksAt() time.Time {
	at := c.epoch.Add(c.acks.since)
	switch {
	case c.state != connected || !c.farewell.heard.IsZero() || c.pressure == codec.NoPressure:
		return time.Time{}
	case c.pressure == codec.Hesitate:
		return at.Add(hesitation)
	}
	return at.Add(refusal)
}

// heldAcksAt returns when acknowledgements that wait must leave. Zero: none waits.
func (c *Conn) heldAcksAt() time.Time {
	if c.pressure == codec.NoPressure || c.acks.len() == 0 || c.isMute() {
		return time.Time{}
	}
	return c.acksAt()
}
