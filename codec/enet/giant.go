package enet

import (
	"time"

	"tidegate/codec"
)

// A peer repeats the parts of its due message until it is acknowledged, and ends the session 5 s later or more. One
// that shows so many parts of a due message beyond Options.MaxMessage, for so long and in so short a time, waits for
// that message. The first number of an unused channel is due all the time, and any peer may forge it without checksums:
// docs/security/forgers.md says how fast.
const (
	giantSightings = 32
	giantPatience  = time.Second // beside two round trips
	giantWithin    = defaultTimeoutMinimum
)

// giant is a message that is too large, and due on its channel.
type giant struct {
	channel   uint8
	start     uint16
	total     uint32
	sightings int
	since     time.Time
}

// refuseGiant refuses a part of a message that is too large. It ends the session if the peer waits for that message.
func (c *Conn) refuseGiant(now time.Time, channel uint8, f *fragment) error {
	if ahead, _ := c.in.channel(channel).place(f.start); ahead != 1 {
		return codec.ErrLimit
	}
	g := &c.giant
	if g.channel != channel || g.start != f.start || g.total != f.total || now.Sub(g.since) > giantWithin+2*c.rtt.Mean {
		*g = giant{channel: channel, start: f.start, total: f.total, since: now}
	}
	g.sightings++
	if c.state == connected && g.sightings >= giantSightings && now.Sub(g.since) >= giantPatience+2*c.rtt.Mean {
		c.refusal = c.appendDisconnectNow(nil)
		c.end(codec.Overflow, 0)
	}
	return codec.ErrLimit
}
