package demo

import (
	"time"

	"tidegate/codec"
	"tidegate/codec/endpoint"
)

// client is one client and its ledger of messages.
type client struct {
	index uint16
	pair  Pair
	form  form
	conn  *endpoint.Conn[*client]
	every time.Duration // between two turns of sending
	next  time.Time     // of the next turn

	connected bool
	gone      bool         // the connection has ended
	again     time.Time    // when the client joins again; zero: not known
	left      bool         // by the client's own goodbye, while it was connected
	reason    codec.Reason // of the end

	reliable   ledger
	unreliable Exchange
	changed    uint64
	keyboard   keyboard
	scratch    [maxBody]byte
}

// Exchange counts messages that may be lost.
type Exchange struct {
	Sent     uint64
	Returned uint64 // echoes that came back
}

// playing reports whether messages can flow.
func (c *client) playing() bool { return c.connected && !c.gone }

// send sends the messages of a turn that is due, and reports whether one was due: an unreliable message, and a reliable
// one if the pair promises anything about it.
func (c *client) send(now time.Time, since time.Duration) bool {
	if !c.playing() || now.Before(c.next) {
		return false
	}
	// A late process does not make up for missed turns: it would measure its own burst.
	if c.next = c.next.Add(c.every); !now.Before(c.next) {
		c.next = now.Add(c.every)
	}
	if c.pair.Promise() != Lossy {
		p := probe{number: c.reliable.sent, sent: since, client: c.index, reliable: true}
		if c.write(now, &p, mode(c.pair.from)) {
			c.reliable.send()
		}
	}
	p := probe{number: c.unreliable.Sent, sent: since, client: c.index}
	if c.write(now, &p, codec.Unreliable) {
		c.unreliable.Sent++
	}
	return true
}

// write reports whether the connection took the probe. A connection with a full queue does not.
func (c *client) write(now time.Time, p *probe, mode codec.Mode) bool {
	m := c.form.message(c.scratch[:0], p, mode)
	c.keyboard.press(p)
	return c.conn.Send(now, m) == nil
}

// event handles an event of the connection. The round trips of echoes go to times.
func (c *client) event(e *codec.Event, since time.Duration, times *latencies) {
	switch e.Kind {
	case codec.Connected:
		c.connected = true
	case codec.Received:
		c.receive(&e.Message, since, times)
	case codec.Disconnected:
		c.gone, c.reason = true, e.Reason
	}
}

// receive records the echoes in a message.
func (c *client) receive(m *codec.Message, since time.Duration, times *latencies) {
	record := c.record
	if c.form.keys {
		record = c.recordKey
	}
	c.form.learn(m)
	err := c.form.probes(m, func(id uint16, body []byte) { record(id, body, since, times) })
	if err != nil {
		c.changed++
	}
}

// recordKey records the answer to a key.
func (c *client) recordKey(number uint16, data []byte, since time.Duration, times *latencies) {
	sent, ok := c.keyboard.answered(number, data)
	switch {
	case !ok:
		c.changed++
	case sent > 0:
		c.unreliable.Returned++
		times.add(since - sent)
	}
}

// record records an echo.
func (c *client) record(id uint16, body []byte, since time.Duration, times *latencies) {
	var p probe
	switch {
	case p.parse(id, body) != nil || p.client != c.index:
		c.changed++
		return
	case !p.reliable && p.number >= c.unreliable.Sent:
		c.changed++
		return
	case !p.reliable:
		c.unreliable.Returned++
	case !c.reliable.receive(p.number):
		c.changed++
		return
	}
	times.add(since - p.sent)
}

// waits reports whether echoes are missing that the pair promises, or that would come without losses.
func (c *client) waits() bool {
	if c.pair.Promise() == Lossy {
		return c.unreliable.Returned < c.unreliable.Sent
	}
	return len(c.reliable.underWay) > 0
}

// leave says goodbye.
func (c *client) leave(now time.Time) {
	c.left = c.playing()
	c.conn.Close(now, codec.Goodbye{Reason: codec.Closed})
}
