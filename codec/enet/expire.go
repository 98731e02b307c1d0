package enet

import "time"

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
		if !c.holds() || now-c.stillAt < patience {
			continue
		}
		given += c.earlyCount + len(c.waiting) + len(c.unfinished)
		in.forgetEarly(c)
		for len(c.waiting) > 0 {
			in.takeWaiting(c, len(c.waiting)-1)
		}
		for len(c.unfinished) > 0 {
			in.forget(c, len(c.unfinished)-1)
		}
	}
	return given
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
	for _, r := range c.rivals {
		in.held -= len(r.payload)
	}
	c.rivals = nil
	in.shrink(c)
}

// clear gives up all messages.
func (in *inbox) clear() {
	in.channels, in.held, in.heldNext, in.early, in.waiting = nil, 0, 0, 0, 0
}
