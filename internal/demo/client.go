package demo

import (
	"time"

	"tidegate/codec"
	"tidegate/internal/netio"
)

// client is one player and its books.
type client struct {
	index  uint16
	pair   Pair
	form   form
	conn   codec.Conn
	socket netio.Socket
	every  time.Duration // between two turns of sending
	next   time.Time     // the next turn

	connected bool
	gone      bool         // Disconnected
	left      bool         // by its own goodbye, while it was connected
	reason    codec.Reason // of Disconnected

	reliable   ledger
	unreliable Exchange
	changed    uint64
	keyboard   keyboard
	scratch    [maxBody]byte
}

// Exchange is what became of messages that may be lost.
type Exchange struct {
	Sent     uint64
	Returned uint64 // echoes that came back
}

// playing reports whether messages can flow.
func (c *client) playing() bool { return c.connected && !c.gone }

// send sends a reliable message, where the pair can promise anything of it, and an unreliable one, each turn.
func (c *client) send(now time.Time, since time.Duration) {
	if !c.playing() || now.Before(c.next) {
		return
	}
	// Turns that were missed because the process had no time are not made up for: a burst would measure itself.
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
}

// write reports whether the connection took the probe; one whose queue is full does not.
func (c *client) write(now time.Time, p *probe, mode codec.Mode) bool {
	m := c.form.message(c.scratch[:0], p, mode)
	c.keyboard.press(p)
	return c.conn.Send(now, m) == nil
}

// settle handles the connection's events; times takes the round trips of the echoes.
func (c *client) settle(since time.Duration, times *latencies) {
	for e, ok := c.conn.Poll(); ok; e, ok = c.conn.Poll() {
		switch e.Kind {
		case codec.Connected:
			c.connected = true
		case codec.Received:
			c.receive(&e.Message, since, times)
		case codec.Disconnected:
			c.gone, c.reason = true, e.Reason
		}
	}
}

// receive books the echoes in a message.
func (c *client) receive(m *codec.Message, since time.Duration, times *latencies) {
	book := c.book
	if c.form.keys {
		book = c.bookKey
	}
	c.form.learn(m)
	err := c.form.probes(m, func(id uint16, body []byte) { book(id, body, since, times) })
	if err != nil {
		c.changed++
	}
}

// bookKey books the answer to a key.
func (c *client) bookKey(player uint16, data []byte, since time.Duration, times *latencies) {
	sent, ok := c.keyboard.answered(player, data)
	switch {
	case !ok:
		c.changed++
	case sent > 0:
		c.unreliable.Returned++
		times.add(since - sent)
	}
}

// book books an echo.
func (c *client) book(id uint16, body []byte, since time.Duration, times *latencies) {
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

// waits reports whether echoes are outstanding that the pair promises, or that come if nothing is lost.
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
