package raknet

import (
	"fmt"
	"time"

	"tidegate/codec"
)

var errPressure = fmt.Errorf("raknet: more than the far side takes: %w", codec.ErrFull)

var _ codec.Throttler = (*Conn)(nil)

// Throttle implements codec.Throttler. A stock peer has at most 512 datagrams that are not acknowledged, and waits
// then; its timeout sends them again, which costs little. What is refused is not acknowledged and not missed, so a peer
// without a window, such as go-raknet, sends it again by its own timer.
func (c *Conn) Throttle(now time.Time, p codec.Pressure) {
	if c.phase != connected {
		p = codec.NoPressure
	}
	if c.pressure != p {
		c.pressure = p
		c.occupy()
		c.receiver.acksAt = min(c.receiver.acksAt, now.Sub(c.start)) // those that were held back are due
	}
}

// Fill implements codec.Throttler.
func (c *Conn) Fill() float64 {
	return float64(c.sender.bytes+queueOverhead*c.sender.count) / float64(c.p.o.MaxQueued)
}
