package riptide

import (
	"time"

	"tidegate/codec"
	"tidegate/codec/internal/events"
)

// maxControl bounds the bytes of acknowledgements, heartbeats and handshake messages that wait for Transmit. Further
// ones are not sent; the peer's resends ask for them again.
const maxControl = 32 << 10

// maxSends is the number of times that the library sends a reliable message. Then 2.1+ gives up the connection, and
// 2.0 silently gives up the message. We do neither to a peer of 2.0, nor to a peer with a stalling stream. We first
// send it slowSends times more, at a slow pace. docs/protocols/riptide.md#resends
const (
	maxSends  = 15
	slowSends = 10
)

// state says how far a connection has come.
type state uint8

const (
	connecting state = iota // client: Connect is sent
	pending                 // client: the server has said that it is deciding
	asked                   // server: the proxy is deciding
	welcomed                // server: waits for the client's Welcome; client: holds its own Welcome back (tentative)
	connected
	closed
)

// Conn is one side of one connection. Each concern of the protocol is a type of its own; Conn conducts them.
type Conn struct {
	options *Options
	dialect *dialect
	server  bool  `cbor:"3,keyasint,omitempty"`
	state   state `cbor:"4,keyasint"`
	// tentative says that the client's Welcome waits for Confirm.
	tentative bool      `cbor:"5,keyasint,omitempty"`
	busy      bool      `cbor:"6,keyasint,omitempty"`  // messages have passed since the last heartbeat
	mute      bool      `cbor:"20,keyasint,omitempty"` // as Reflect has said
	reflected bool      `cbor:"21,keyasint,omitempty"` // as well
	client    uint16    `cbor:"7,keyasint,omitempty"`  // the client's ID
	heard     time.Time `cbor:"8,keyasint,omitempty"`
	doubt     doubt
	welcome   welcome `cbor:"11,keyasint,omitempty"`
	ticker    ticker  `cbor:"12,keyasint,omitempty"`

	window        window
	flight        flight
	notifier      notifier
	rtt           rtt
	sends         sendQuality `cbor:"17,keyasint,omitempty"`
	tolerantUntil time.Time   `cbor:"9,keyasint,omitempty"` // until then losses are our own fault

	control outbox // sent first and in any state
	data    outbox // messages; sent once connected
	events  events.Queue
	scratch []byte      // holds the payload that Poll lends
	stats   codec.Stats `cbor:"19,keyasint"`
}

var _ codec.Confirmer = (*Conn)(nil)

func newConn(p *Protocol, now time.Time) *Conn {
	return &Conn{
		options:  &p.options,
		dialect:  p.dialect,
		heard:    now,
		window:   newWindow(p.options.first),
		flight:   newFlight(p.options.first + 1),
		notifier: newNotifier(p.options.first),
	}
}

// Poll returns the next event.
func (c *Conn) Poll() (codec.Event, bool) { return c.events.Poll() }

// Transmit appends the next datagram to b.
func (c *Conn) Transmit(now time.Time, b []byte) ([]byte, bool) {
	if c.ticker.owed && c.state == connected && !c.isMute() {
		c.sendHeartbeat(now)
	}
	for {
		datagram, s, ok := c.control.next()
		if !ok && c.state >= connected {
			datagram, s, ok = c.data.next()
		}
		if !ok {
			return b, false
		}
		if datagram == nil {
			m := c.flight.get(s)
			if m == nil {
				continue // acknowledged meanwhile
			}
			datagram = m.datagram
		}
		c.stats.Sent++
		return append(b, datagram...), true
	}
}

// Advance does the work that is due: time-outs, resends, heartbeats and connection attempts.
func (c *Conn) Advance(now time.Time) {
	if c.state == closed {
		return
	}
	if deadline := c.deadline(); !deadline.IsZero() && !now.Before(deadline) {
		ours := !c.server && (c.state == welcomed || c.isMute())
		c.end(codec.TimedOut)
		if ours { // the silence: the server may have no time-out of its own
			c.leave()
		}
		return
	}
	c.stepDoubt(now)
	c.stepPong(now)
	if !c.server {
		c.tick(now)
	}
	c.resendWelcome(now)
	c.resendMessages(now)
}

// NextTimeout returns when Advance has work again.
func (c *Conn) NextTimeout() time.Time {
	if c.state == closed {
		return time.Time{}
	}
	next := codec.Earliest(codec.Earliest(c.deadline(), c.ticker.next), c.doubt.next())
	next = codec.Earliest(next, c.pongDue())
	if c.welcome.waiting {
		next = codec.Earliest(next, c.welcome.sentAt.Add(c.resendAfter(c.welcome.sends, c.welcome.sentAt)))
	}
	if _, m, ok := c.flight.due(); ok {
		next = codec.Earliest(next, m.sentAt.Add(c.resendAfter(m.sends, m.sentAt)))
	}
	return next
}

// Stats returns the connection's figures so far.
func (c *Conn) Stats() codec.Stats {
	s := c.stats
	s.RTT = c.rtt.Smooth
	s.Queued, s.Held = c.queued(), len(c.ticker.connect)
	if c.state == closed { // nothing waits for an acknowledgement any more
		s.Queued = c.data.bytes()
	}
	return s
}

// Close ends the session, or refuses it before Admit. Disconnected follows at once: Riptide acknowledges no goodbye.
func (c *Conn) Close(_ time.Time, why codec.Goodbye) {
	if c.state == closed {
		return
	}
	if c.state != connected {
		c.data.drop()
	}
	if c.server {
		if why.Text != "" && len(why.Data) == 0 {
			why.Data, why.Pad = appendText(c.options.Version, nil, why.Text)
		}
		c.dismiss(why)
	} else {
		c.leave()
	}
	c.finish(codec.Event{Kind: codec.Disconnected, Reason: why.Reason})
}

// deadline returns when the peer's silence ends the connection. It is zero for a client that still sends Connect.
func (c *Conn) deadline() time.Time {
	switch c.state {
	case connecting:
		return time.Time{}
	case pending, asked:
		return c.heard.Add(c.options.ConnectTimeout)
	case welcomed:
		return c.heard.Add(c.options.TimeoutTime)
	}
	return c.heard.Add(c.patience())
}

// acceptsMessages reports whether the peer may send messages: in session, and before that if the peer is a server that
// has accepted us.
func (c *Conn) acceptsMessages() bool {
	return c.state == connected || c.state == welcomed && !c.server
}

// open starts the session proper, and sends the messages that waited for it.
func (c *Conn) open(now time.Time) {
	c.state = connected
	c.heard = now
	c.sendWaiting(now)
}

// end ends the connection without a goodbye of ours, as the library does when it loses the peer. If the peer has said a
// goodbye that is not believed yet, its reason counts: it acknowledges nothing because it has left.
func (c *Conn) end(reason codec.Reason) {
	ended := codec.Event{Kind: codec.Disconnected, Reason: reason}
	if !c.doubt.believe.IsZero() {
		ended = c.doubt.goodbye
	}
	c.endWith(ended)
}

func (c *Conn) endWith(disconnected codec.Event) {
	c.control.drop()
	c.data.drop()
	c.finish(disconnected)
}

// finish answers all receipts and reports the end.
func (c *Conn) finish(disconnected codec.Event) {
	c.state = closed
	c.ticker.connect = nil
	for r := range c.flight.receipts() {
		c.events.Answer(r, false)
	}
	for r, ok := c.notifier.unanswered(); ok; r, ok = c.notifier.unanswered() {
		c.events.Answer(r, false)
	}
	c.events.Push(disconnected)
}

// reply opens a record among the control messages, unless they have no room for n more bytes.
func (c *Conn) reply(n int) (b []byte, ok bool) {
	if c.control.bytes()+n+lengthSize > maxControl {
		return nil, false
	}
	return c.control.begin(), true
}

// relax begins another heartbeat. It frees the memory of a connection that has been quiet for one.
func (c *Conn) relax() {
	c.rtt.turn()
	if !c.busy {
		c.window.relax()
		c.flight.relax()
		c.notifier.relax()
		c.control.relax()
		c.data.relax()
		c.events.Release()
		c.scratch = nil
	}
	c.busy = false
}
