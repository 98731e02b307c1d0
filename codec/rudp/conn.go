package rudp

import (
	"time"

	"tidegate/codec"
	"tidegate/codec/internal/events"
)

// maxAhead is how far ahead of the newest packet the next of an honest peer can be: maxInFlight packets it knows no
// acknowledgement of, and its DisconnectionNotify. What is further ahead is forged.
const maxAhead = maxInFlight + 1

// state is how far a connection has come.
type state uint8

const (
	dialing  state = iota // client: the request goes out
	asked                 // server: the proxy is deciding
	admitted              // server: Accept goes out, the client has not acknowledged it yet
	connected
	closed
)

// Conn is one side of one connection. It conducts: each concern of the protocol is a type of its own.
type Conn struct {
	options  *Options
	server   bool
	state    state
	attempts int  // requests or Accepts that have fallen due
	refused  bool // client: a repeated request was refused, which may mean that an earlier one waits

	received acks
	flight   flight
	outbox   outbox
	rtt      rtt

	period   time.Duration // between two packets
	tickAt   time.Time     // when the next packet is due; zero: none is
	deadline time.Time     // when a handshake ends; zero once connected
	heard    time.Time     // when the peer's latest valid packet came
	due      bool          // the packet of this period waits for Transmit
	parting  []kind        // the last packets of a connection, which wait for Transmit

	events events.Queue
	stats  codec.Stats
}

// Poll returns the next event.
func (c *Conn) Poll() (codec.Event, bool) { return c.events.Poll() }

// Transmit appends the packet that is due to b.
func (c *Conn) Transmit(now time.Time, b []byte) ([]byte, bool) {
	switch {
	case c.due:
		c.due = false
		b = c.appendDue(now, b)
	case len(c.parting) > 0:
		b = c.write(b, &packet{seq: c.flight.number(now), kind: c.parting[0]})
		c.parting = c.parting[1:]
	default:
		return b, false
	}
	c.stats.Sent++
	return b, true
}

// Advance runs what is due: the packet of this period, and the end of a handshake or of a session that is broken.
func (c *Conn) Advance(now time.Time) {
	switch {
	case c.state == closed:
	case !c.deadline.IsZero() && !now.Before(c.deadline):
		c.expire()
	case !c.tickAt.IsZero() && !now.Before(c.tickAt):
		c.tick(now)
	}
}

// NextTimeout is when the first of those things is due.
func (c *Conn) NextTimeout() time.Time {
	switch {
	case c.state == closed:
		return time.Time{}
	case c.tickAt.IsZero() || !c.deadline.IsZero() && c.deadline.Before(c.tickAt):
		return c.deadline
	}
	return c.tickAt
}

// Stats are the connection's figures so far. Lost counts packets, with or without data.
func (c *Conn) Stats() codec.Stats {
	s := c.stats
	s.RTT = time.Duration(c.rtt)
	s.Queued = c.outbox.bytes()
	return s
}

// Announce is not of this protocol.
func (c *Conn) Announce(time.Time, codec.EventKind, uint16) error { return codec.ErrMode }

// Close ends the session, or refuses it before Admit. Disconnected follows at once: RUDP acknowledges no goodbye, and
// gives no reason. A client that was admitted and has not answered may think of itself as connected or not: it is
// refused, which a connected one ignores, and then told goodbye. Messages that wait are not sent any more.
func (c *Conn) Close(_ time.Time, why codec.Goodbye) {
	switch c.state {
	case closed:
		return
	case asked:
		c.parting = []kind{kindRefuse}
	case admitted:
		c.parting = []kind{kindRefuse, kindNotify}
	default:
		c.parting = []kind{kindNotify}
	}
	c.end(why.Reason)
}

// tick makes the packet of this period due, or ends a connection whose packets nobody acknowledges.
func (c *Conn) tick(now time.Time) {
	switch c.state {
	case dialing:
		c.repeatRequest(now)
		return
	case admitted:
		c.repeatAccept()
	case connected:
		if c.flight.isFull() {
			c.giveUp()
			return
		}
		c.due = true
	}
	c.schedule(now, c.period)
}

// schedule sets the next tick: on the beat, unless that has passed already.
func (c *Conn) schedule(now time.Time, interval time.Duration) {
	c.tickAt = c.tickAt.Add(interval)
	if !now.Before(c.tickAt) {
		c.tickAt = now.Add(interval)
	}
}

// open begins the session proper.
func (c *Conn) open() {
	c.state, c.deadline = connected, time.Time{}
	c.events.Push(codec.Event{Kind: codec.Connected})
}

// giveUp ends a session of which 33 packets are unacknowledged. docs/protocols/rudp.md#acks
func (c *Conn) giveUp() {
	reason := codec.TimedOut
	if c.heard.After(c.flight.stalledSince()) {
		reason = codec.PoorConnection
	}
	c.parting = []kind{kindNotify}
	c.end(reason)
}

// expire ends a handshake that takes too long.
func (c *Conn) expire() {
	switch {
	case c.server:
		c.end(codec.TimedOut)
	case c.refused:
		c.end(codec.Rejected)
	default:
		c.end(codec.NoConnection)
	}
}

// end answers all receipts and reports the end.
func (c *Conn) end(reason codec.Reason) {
	c.state, c.due = closed, false
	for r, ok := c.flight.give(); ok; r, ok = c.flight.give() {
		c.events.Answer(r, false)
	}
	for c.outbox.count() > 0 {
		_, messages := c.outbox.take(c.options.MaxJoined)
		for _, m := range messages {
			if m.receipt != 0 {
				c.events.Answer(m.receipt, false)
			}
		}
	}
	c.events.Push(codec.Event{Kind: codec.Disconnected, Reason: reason})
}
