package enet

import (
	"time"

	"tidegate/codec"
)

var _ codec.Reflector = (*Conn)(nil)

// leastSilence is the shortest silence of a peer that the far side is shown. A live peer answers pings twice a second.
const leastSilence = time.Second

// patience is how long a peer may be silent.
type patience struct {
	limit       int // how much a command's time-out grows before the library gives up
	least, most time.Duration
}

// of returns the patience with the peer of a command with a given first time-out: that of the library, which doubles
// the time-out with each repetition.
func (p patience) of(first time.Duration) time.Duration {
	return min(max(p.least, time.Duration(2*p.limit-1)*first), p.most)
}

func (c *Conn) patience() patience {
	o := c.options
	p := patience{limit: o.TimeoutLimit, least: o.TimeoutMinimum, most: o.Timeout}
	if c.reflected {
		p.least = p.most
	}
	return p
}

// IsSilent implements codec.Reflector. A far peer with the library's least patience then gives up when it would without
// a proxy, although its round trips are shorter.
func (c *Conn) IsSilent(now time.Time) bool {
	o := c.options
	alone := patience{limit: o.TimeoutLimit, least: o.TimeoutMinimum, most: o.Timeout}
	return c.state == connected && now.Sub(c.heard) >= leastSilence+alone.of(c.rtt.timeout())-alone.least
}

// Reflects implements codec.Reflector.
func (*Conn) Reflects() bool { return true }

// Reflect implements codec.Reflector.
func (c *Conn) Reflect(isSilent, isReflected bool) (released bool) {
	released = c.mute && !isSilent
	c.mute, c.reflected = isSilent, isReflected
	return released
}

// isMute reports whether the peer gets nothing until the far side's peer is heard again.
func (c *Conn) isMute() bool { return c.mute && c.state == connected && c.farewell.heard.IsZero() }
