package riptide

import (
	"time"

	"tidegate/codec"
)

// firstSeq is the number of the first reliable message of each direction, which is Welcome, and of the first notify.
const firstSeq seq = 1

// welcome is the transmission of our Welcome. It is separate from the flight, because it precedes the session.
type welcome struct {
	waiting bool // waits for its acknowledgement
	sends   uint8
	sentAt  time.Time
}

// sendWelcome sends Welcome once more.
func (c *Conn) sendWelcome(now time.Time) {
	c.welcome.waiting = true
	c.welcome.sends++
	c.welcome.sentAt = now
	n := clientNote{kind: kindWelcome, seq: c.options.first, client: c.client}
	if b, ok := c.reply(5); ok {
		c.control.end(n.append(c.dialect, b))
	}
}

// resendWelcome repeats Welcome when it is due. If all transmissions of a server fail, it falls silent and waits for
// its deadline. A client, whose session has begun, gives up.
func (c *Conn) resendWelcome(now time.Time) {
	if !c.welcome.waiting || now.Before(c.welcome.sentAt.Add(c.resendAfter(c.welcome.sends, c.welcome.sentAt))) {
		return
	}
	limit := uint8(maxSends)
	if c.state == connected {
		limit = c.sendLimit(c.welcome.sentAt)
	}
	if c.welcome.sends < limit {
		c.stats.Resent++
		c.sendWelcome(now)
		return
	}
	c.welcome.waiting = false
	if c.state == connected {
		c.end(codec.PoorConnection)
	}
}

// welcomeAcknowledged handles the acknowledgement of our Welcome. It reports whether s was that.
func (c *Conn) welcomeAcknowledged(now time.Time, s seq) bool {
	if s != c.options.first || !c.welcome.waiting {
		return false
	}
	c.welcome.waiting = false
	if c.welcome.sends == 1 {
		c.rtt.measure(now.Sub(c.welcome.sentAt))
	}
	return true
}
