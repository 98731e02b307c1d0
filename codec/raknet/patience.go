package raknet

import (
	"time"

	"tidegate/codec"
)

// C++ games tell a lost connection from a goodbye: many come back by themselves after the one, and show their menu
// after the other. The library finds a loss by silence alone. So a C++ player is shown its server's silence, and a
// server that is lost gets no goodbye for it (docs/protocols/raknet/recovery.md#peers-without-timers).

var _ codec.Reflector = (*Conn)(nil)

// leastSilence is how long a server may owe an answer, beside two round trips.
const leastSilence = time.Second

// IsSilent implements codec.Reflector. A player's silence is not shown: its server would keep its GUID for longer.
func (c *Conn) IsSilent(now time.Time) bool {
	k := &c.keepalive
	return c.dialed && c.phase == connected && k.AskedAt > k.HeardAt && !c.sender.settled() &&
		now.Sub(c.start)-k.AskedAt >= leastSilence+2*c.roundTrip()
}

// Reflects implements codec.Reflector. Only C++ RakNet has version 6.
func (c *Conn) Reflects() bool { return !c.dialed && !c.longList }

// Reflect implements codec.Reflector.
func (c *Conn) Reflect(isSilent, isReflected bool) (released bool) {
	released = c.mute && !isSilent
	c.mute, c.keepalive.Reflected = isSilent, isReflected
	if c.isMute() {
		c.keepalive.Pong = false
	}
	return released
}

// isMute reports whether the peer gets nothing until its server is heard again.
func (c *Conn) isMute() bool { return c.mute && c.phase == connected && !c.goodbye.Heard }
