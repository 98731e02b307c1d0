package enet

import (
	"slices"
	"time"

	"tidegate/codec"
)

// holds reports whether a message of the channel waits or is unfinished.
func (c *inChannel) holds() bool { return c.earlyCount+len(c.waiting)+len(c.unfinished) > 0 }

// begins notes that a message of the channel will wait.
func (in *inbox) begins(c *inChannel) {
	if !c.holds() {
		c.stillAt = in.now
	}
}

// unfinishedPatience is how long a channel may stand still while messages wait, beside twice the timeout. A live peer
// repeats a missing command all the time, and gives up the connection much earlier.
const unfinishedPatience = time.Minute

// expire gives up the messages of channels that have stood still for too long. It returns their number. The connection
// goes on, since the cause may be a forged command.
func (in *inbox) expire(now, patience time.Duration) (given int) {
	for i := range in.channels {
		c := &in.channels[i]
		given += in.expireRivals(c, now-patience)
		if !c.holds() || now-c.stillAt < patience {
			continue
		}
		given += c.earlyCount + len(c.waiting) + len(c.unfinished)
		in.giveUp(c)
	}
	return given
}

// expireRivals gives up the rivals that got no part since a time. Nothing waits for them.
func (in *inbox) expireRivals(c *inChannel, since time.Duration) (given int) {
	c.rivals = slices.DeleteFunc(c.rivals, func(r rival) bool {
		isOld := r.assembly != nil && r.assembly.fedAt <= since
		if isOld {
			in.discard(&r)
			given++
		}
		return isOld
	})
	return given
}

// giveUp gives up all messages of a channel that wait or are unfinished.
func (in *inbox) giveUp(c *inChannel) {
	in.forgetEarly(c)
	for len(c.waiting) > 0 {
		in.takeWaiting(c, len(c.waiting)-1)
	}
	for len(c.unfinished) > 0 {
		in.forget(c, len(c.unfinished)-1)
	}
}

// forgetEarly gives up all early messages of a channel.
func (in *inbox) forgetEarly(c *inChannel) {
	for i := range c.early {
		s := &c.early[i]
		switch {
		case s.whole:
			in.held -= len(s.payload)
		case s.assembly != nil:
			in.uncount(s.assembly)
		default:
			continue
		}
		*s = earlyMessage{}
		in.early--
		c.earlyCount--
	}
	for i := range c.rivals {
		in.discard(&c.rivals[i])
	}
	c.rivals = nil
	in.shrink(c)
}

// clear gives up all messages.
func (in *inbox) clear() {
	in.channels, in.held, in.heldNext, in.early, in.waiting = nil, 0, 0, 0, 0
}

var _ codec.Holder = (*Conn)(nil)

// Release implements codec.Holder. Messages that would have to wait are refused from now on.
func (c *Conn) Release() {
	for i := range c.in.channels {
		c.in.giveUp(&c.in.channels[i])
	}
	c.in.full = true
}
