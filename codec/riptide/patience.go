package riptide

import (
	"time"

	"tidegate/codec"
)

var _ codec.Reflector = (*Conn)(nil)

// longestSilence is how long a peer may be silent whose silence the far side is shown. The far peer's own time-out
// ends the session sooner, or the proxy's, if both are gone.
const longestSilence = 30 * time.Second

// IsSilent implements codec.Reflector. A live peer is heard once each HeartbeatInterval, and one heartbeat may be lost.
func (c *Conn) IsSilent(now time.Time) bool {
	return c.state == connected && now.Sub(c.heard) >= c.options.HeartbeatInterval*5/2
}

// Reflects implements codec.Reflector.
func (*Conn) Reflects() bool { return true }

// Reflect implements codec.Reflector. Only heartbeats and their answers count as signs of life, so nothing else is held
// back.
func (c *Conn) Reflect(isSilent, isReflected bool) (released bool) {
	released = c.mute && !isSilent && c.ticker.owed
	c.mute, c.reflected = isSilent, isReflected
	return released
}

// isMute reports whether the peer gets no sign of life. One that may have left is asked whether it is there.
func (c *Conn) isMute() bool { return c.mute && c.state == connected && c.doubt.believe.IsZero() }

// patience returns how long the peer may be silent in session. There is extra time for a late heartbeat: the library
// checks its clock with its own heartbeats, after 5 to 6 s.
func (c *Conn) patience() time.Duration {
	own := c.options.TimeoutTime + c.options.HeartbeatInterval/2
	if c.reflected {
		return max(own, longestSilence)
	}
	return own
}
