package raknet

import (
	"time"

	"tidegate/codec"
)

// C++ games tell a lost connection from a goodbye: many come back by themselves after the one, and show their menu
// after the other, and servers keep the places of lost players. The library finds a loss by silence alone. So C++ peers
// are shown each other's silence, and hear no goodbye of a lost one
// (docs/protocols/raknet/recovery.md#peers-without-timers).

var _ codec.Reflector = (*Conn)(nil)

// leastSilence is how long a peer may owe an answer, beside two round trips.
const leastSilence = time.Second

// Silence implements codec.Reflector. A player's silence is shown only to a server that waits as long as we do.
func (c *Conn) Silence(now time.Time, alike bool) (shows, silent bool) {
	k := &c.keepalive
	return c.dialed || alike && !c.longList, c.phase == connected && k.AskedAt > k.HeardAt && !c.sender.settled() &&
		now.Sub(c.start) >= c.silentAt()
}

// silentAt returns when the peer is silent, if it says nothing from AskedAt on.
func (c *Conn) silentAt() time.Duration { return c.keepalive.AskedAt + leastSilence + 2*c.roundTrip() }

// lostAt returns when a silent peer is lost. A player whose silence is shown keeps its GUID here until its server has
// given it up.
func (c *Conn) lostAt() time.Duration {
	k := &c.keepalive
	at := k.HeardAt
	if k.Reflected && !c.dialed && k.AskedAt > at {
		at = c.silentAt() + leastSilence/2
	}
	return at + c.p.o.Timeout
}

// Reflects implements codec.Reflector. Only C++ RakNet has version 6.
func (c *Conn) Reflects(alike bool) bool { return (!c.dialed || alike) && !c.longList }

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
