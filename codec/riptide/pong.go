package riptide

import "time"

// leastFar is the shortest round trip between proxy and server for which an answer waits.
const leastFar = 2 * time.Millisecond

// deferPong has the answer to a client's heartbeat wait for as long as the server's would take. The client measures the
// round trip by it. It resends messages, and gives the connection up, by that figure. A client sends the next heartbeat
// after HeartbeatInterval, and ignores later answers to this one.
func (c *Conn) deferPong(now time.Time, ping uint8) {
	c.releasePong()
	if c.isMute() {
		return // answered later, it would measure the silence
	}
	c.ticker.ping, c.ticker.pingAt = ping, now
	if far := min(c.rtt.Far, c.options.HeartbeatInterval*3/4); far >= leastFar {
		c.ticker.pingAt = now.Add(far)
	}
	c.stepPong(now)
}

// pongDue returns when the waiting answer is due, or the zero time.
func (c *Conn) pongDue() time.Time {
	if !c.server {
		return time.Time{}
	}
	return c.ticker.pingAt
}

// stepPong answers the heartbeat once the answer is due.
func (c *Conn) stepPong(now time.Time) {
	if !now.Before(c.pongDue()) {
		c.releasePong()
	}
}

// releasePong answers the heartbeat that waits for its answer, if one does.
func (c *Conn) releasePong() {
	if c.pongDue().IsZero() {
		return
	}
	c.ticker.pingAt = time.Time{}
	if c.isMute() {
		return
	}
	if b, ok := c.reply(2); ok {
		c.control.end(appendHeartbeatAnswer(c.dialect, b, c.ticker.ping))
	}
}
