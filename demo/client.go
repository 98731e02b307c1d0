package demo

import (
	"time"

	"tidegate/codec"
	"tidegate/netio"
)

// client is one Riptide client and its books.
type client struct {
	index  uint16
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
	scratch    []byte
}

// Exchange is what became of messages that may be lost.
type Exchange struct {
	Sent     uint64
	Returned uint64 // echoes that came back
}

// playing reports whether messages can flow.
func (c *client) playing() bool { return c.connected && !c.gone }

// send sends a reliable and an unreliable message, each turn.
func (c *client) send(now time.Time, since time.Duration) {
	if !c.playing() || now.Before(c.next) {
		return
	}
	// Turns that were missed because the process had no time are not made up for: a burst would measure itself.
	if c.next = c.next.Add(c.every); !now.Before(c.next) {
		c.next = now.Add(c.every)
	}
	p := probe{number: c.reliable.sent, sent: since, client: c.index, reliable: true}
	if c.write(now, &p, codec.Reliable) {
		c.reliable.send()
	}
	p = probe{number: c.unreliable.Sent, sent: since, client: c.index}
	if c.write(now, &p, codec.Unreliable) {
		c.unreliable.Sent++
	}
}

// write reports whether the connection took the probe; one whose queue is full does not.
func (c *client) write(now time.Time, p *probe, mode codec.Mode) bool {
	c.scratch = p.append(c.scratch[:0])
	return c.conn.Send(now, codec.Message{Payload: c.scratch, Mode: mode, ID: p.id(), HasID: true}) == nil
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

// receive books an echo.
func (c *client) receive(m *codec.Message, since time.Duration, times *latencies) {
	var p probe
	switch {
	case p.parse(m.ID, m.Payload) != nil || p.client != c.index:
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

// leave says goodbye.
func (c *client) leave(now time.Time) {
	c.left = c.playing()
	c.conn.Close(now, codec.Goodbye{Reason: codec.Closed})
}
