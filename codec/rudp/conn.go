package rudp

import (
	"fmt"
	"time"

	"tidegate/codec"
	"tidegate/codec/internal/events"
)

// maxAhead is how far the next packet of an honest peer can be ahead of the newest one. The peer may have sent
// maxInFlight packets without an acknowledgement, and its DisconnectionNotify. A packet further ahead is forged.
const maxAhead = maxInFlight + 1

// state says how far a connection has come.
type state uint8

const (
	dialing  state = iota // client: the request goes out
	asked                 // server: the proxy is deciding
	admitted              // server: Accept is sent, but the client has not acknowledged it yet
	connected
	closed
)

// Conn is one side of one connection. Each concern of the protocol is a type of its own; Conn conducts them.
type Conn struct {
	options  *Options
	server   bool  `cbor:"3,keyasint,omitempty"`
	state    state `cbor:"4,keyasint"`
	attempts int   `cbor:"5,keyasint,omitempty"` // requests or Accepts that have been due
	refused  bool  `cbor:"6,keyasint,omitempty"` // client: a repeated request was refused, and the server may have another

	received acks    `record:"inline"`
	jump     jump    `record:"inline"`
	goodbye  goodbye `record:"inline"`
	flight   flight
	outbox   outbox
	rtt      rtt

	period   time.Duration `cbor:"10,keyasint,omitempty"` // time between two packets
	tickAt   time.Time     `cbor:"11,keyasint,omitempty"` // when the next packet is due; zero: never
	deadline time.Time     `cbor:"12,keyasint,omitempty"` // when a handshake ends; zero once connected
	heard    time.Time     `cbor:"13,keyasint,omitempty"` // when the peer's latest valid packet arrived
	due      bool          // the packet of this period waits for Transmit
	apart    bool          `cbor:"26,keyasint,omitempty"` // each message is a packet of the far side, and stays one
	closing  []kind        // last packets of a connection, which wait for Transmit

	events events.Queue
	stats  codec.Stats `cbor:"14,keyasint"`
}

// Poll returns the next event.
func (c *Conn) Poll() (codec.Event, bool) { return c.events.Poll() }

// Transmit appends the due packet to b. Messages that are left over follow in more packets at once. If they waited, all
// later ones would wait as long, since a game may send one in each period.
func (c *Conn) Transmit(now time.Time, b []byte) ([]byte, bool) {
	switch {
	case c.due:
		b = c.appendDue(now, b)
		c.due = c.state == connected && c.outbox.count() > 0 && !c.flight.isFull()
	case len(c.closing) > 0:
		b = c.write(b, &packet{seq: c.flight.number(now), kind: c.closing[0]})
		c.closing = c.closing[1:]
	default:
		return b, false
	}
	c.stats.Sent++
	return b, true
}

// Advance does the work that is due: the packet of this period, or the end of a late handshake or a broken session.
func (c *Conn) Advance(now time.Time) {
	switch {
	case c.state == closed:
	case !c.deadline.IsZero() && !now.Before(c.deadline):
		c.expire()
	case !c.goodbye.at.IsZero() && codec.IsLate(now, codec.Earliest(c.tickAt, c.goodbye.at)):
		c.awaitSign(now)
		c.tick(now)
	case !c.goodbye.at.IsZero() && !now.Before(c.goodbye.at):
		c.believe(now)
	case !c.tickAt.IsZero() && !now.Before(c.tickAt):
		c.tick(now)
	}
}

// NextTimeout returns when Advance has work again.
func (c *Conn) NextTimeout() time.Time {
	switch {
	case c.state == closed:
		return time.Time{}
	case c.tickAt.IsZero() || !c.deadline.IsZero() && c.deadline.Before(c.tickAt):
		return c.deadline
	}
	return codec.Earliest(c.tickAt, c.goodbye.at)
}

// Stats returns the connection's figures so far. Lost counts packets, with or without data.
func (c *Conn) Stats() codec.Stats {
	s := c.stats
	s.RTT = time.Duration(c.rtt)
	s.Queued = c.outbox.bytes()
	return s
}

// Announce returns ErrMode, because the protocol has no announcements.
func (c *Conn) Announce(time.Time, codec.EventKind, uint16) error { return codec.ErrMode }

// Close ends the session, or refuses it before Admit. Disconnected follows at once: RUDP does not acknowledge a
// goodbye and carries no reason. An admitted client that has not answered may or may not count itself as connected.
// Close refuses such a client, which a connected one ignores, and then says goodbye. Waiting messages are not sent.
func (c *Conn) Close(_ time.Time, why codec.Goodbye) {
	switch c.state {
	case closed:
		return
	case asked:
		c.closing = []kind{kindRefuse}
	case admitted:
		c.closing = []kind{kindRefuse, kindNotify}
	default:
		c.closing = []kind{kindNotify}
	}
	c.end(why.Reason)
}

// tick makes the packet of this period due, or ends a connection whose packets the peer does not acknowledge.
func (c *Conn) tick(now time.Time) {
	switch c.state {
	case dialing:
		c.repeatRequest(now)
		return
	case admitted: // the library sends only one Accept, and a client that misses it fails to connect
		if c.attempts < maxAccepts {
			c.attempts++
			c.due = true
		}
	case connected:
		c.due = !c.flight.isFull()
		if !c.due && c.flight.isOverdue(now, c.period) {
			if !c.believe(now) {
				c.giveUp(now)
			}
			return
		}
	}
	c.schedule(now, c.period)
}

// schedule sets the next tick, one interval after the last, or one interval from now if that is past.
func (c *Conn) schedule(now time.Time, interval time.Duration) {
	c.tickAt = c.tickAt.Add(interval)
	if !now.Before(c.tickAt) {
		c.tickAt = now.Add(interval)
	}
}

// open starts the session proper.
func (c *Conn) open() {
	c.state, c.deadline = connected, time.Time{}
	c.events.Push(codec.Event{Kind: codec.Connected})
}

// giveUp ends a session that has 33 unacknowledged packets. docs/protocols/rudp.md#acks. Packets of a peer that fell
// silent may have arrived for a round trip since the oldest of ours.
func (c *Conn) giveUp(now time.Time) {
	reason := codec.TimedOut
	if now.Sub(c.heard) < goodbyePeriods*c.period {
		reason = codec.PoorConnection
	}
	c.closing = []kind{kindNotify}
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
	for r, ok := c.flight.unanswered(); ok; r, ok = c.flight.unanswered() {
		c.events.Answer(r, false)
	}
	for c.outbox.count() > 0 {
		_, messages := c.outbox.take(c.options.MaxJoined)
		for _, m := range messages {
			if m.Receipt != 0 {
				c.events.Answer(m.Receipt, false)
			}
		}
	}
	c.events.Push(codec.Event{Kind: codec.Disconnected, Reason: reason})
}

// Receive takes one datagram, which holds one packet.
func (c *Conn) Receive(now time.Time, datagram []byte) error {
	return c.stats.Count(c.receive(now, datagram))
}

func (c *Conn) receive(now time.Time, d []byte) error {
	var p packet
	if err := p.parse(d); err != nil {
		return err
	}
	switch {
	case c.state == dialing:
		return c.receiveAnswer(now, &p)
	case c.state == closed || p.app != c.options.AppID:
		return codec.ErrUnexpected
	case c.state == asked:
		return c.receiveUndecided(now, &p)
	}
	return c.receiveInSession(now, &p)
}

// receiveInSession takes a packet of the peer. The packet must be newer than all before it, and no newer than an
// honest peer's can be. It must not acknowledge a packet that the peer cannot have received.
func (c *Conn) receiveInSession(now time.Time, p *packet) error {
	if !c.takes(p.kind) {
		return codec.ErrUnexpected
	}
	switch gap := p.seq.minus(c.received.last); {
	case gap <= 0:
		return codec.ErrDuplicate
	case gap > maxAhead || !c.flight.allows(p.acks.last):
		return codec.ErrWindow
	case c.state == admitted && p.acks.last == c.flight.acked:
		return codec.ErrUnexpected // the packet proves nothing
	case c.state == connected && p.kind == kindNotify:
		if c.goodbye.at.IsZero() {
			c.goodbye = goodbye{seq: p.seq, acks: p.acks} // the peer's next packet may still have its number
			c.awaitSign(now)
		}
		return nil
	case c.state == connected && !c.jump.allows(p.seq, gap):
		return codec.ErrWindow
	}
	c.goodbye.outlives(p.seq)
	c.received.add(p.seq)
	c.heard = now
	c.acknowledge(now, &p.acks)
	if c.state == admitted {
		c.open()
	}
	switch p.kind {
	case kindData:
		m := codec.Message{Payload: p.data, Mode: codec.UnreliableSequenced, Apart: true}
		c.events.Push(codec.Event{Kind: codec.Received, Message: m})
	case kindNotify:
		c.end(codec.Closed)
	}
	return nil
}

// takes reports whether a session accepts packets of kind k. Accept belongs to a session too, because our server
// repeats it until the client acknowledges it.
func (c *Conn) takes(k kind) bool {
	return k == kindData || k == kindKeepAlive || k == kindNotify || k == kindAccept && !c.server
}

// acknowledge records which packets the peer has received. A missing packet is lost for good, because the peer drops
// late packets.
func (c *Conn) acknowledge(now time.Time, a *acks) {
	if a.last == c.flight.acked {
		return
	}
	c.rtt.sample(now.Sub(c.flight.sentAt(a.last)))
	c.stats.Lost += uint64(c.flight.acknowledge(a))
	for r, delivered, ok := c.flight.decide(a); ok; r, delivered, ok = c.flight.decide(a) {
		c.events.Answer(r, delivered)
	}
}

// errEmpty refuses a message without payload. Joined with other messages it would be invisible.
var errEmpty = fmt.Errorf("rudp: empty message: %w", codec.ErrMode)

// Send queues a message for this period.
func (c *Conn) Send(_ time.Time, m codec.Message) error {
	switch {
	case c.state == closed:
		return codec.ErrClosed
	case !modes.Has(m.Mode):
		return codec.ErrMode
	case len(m.Payload) == 0:
		return errEmpty
	case len(m.Payload) > c.options.MaxPayload:
		return codec.ErrTooLarge
	case c.outbox.bytes()+len(m.Payload) > c.options.MaxQueued || c.outbox.count() == maxWaiting:
		return codec.ErrFull
	}
	c.outbox.add(m.Payload, m.Receipt)
	c.apart = c.apart || m.Apart
	return nil
}

// appendDue appends a packet of this period.
func (c *Conn) appendDue(now time.Time, b []byte) []byte {
	switch c.state {
	case dialing:
		p := packet{app: c.options.AppID, seq: c.options.base, acks: acks{last: c.options.base}, kind: kindRequest}
		return p.append(b)
	case admitted:
		t := terms{rate: c.Pace()}
		return c.write(b, &packet{seq: c.flight.number(now), kind: kindAccept, data: t.append(nil)})
	}
	p := packet{seq: c.flight.number(now), kind: kindKeepAlive}
	var messages []waiting
	if c.outbox.count() > 0 {
		p.kind = kindData
		limit := c.options.MaxJoined
		if c.apart {
			limit = 0
		}
		p.data, messages = c.outbox.take(limit)
	}
	for _, m := range messages {
		if m.Receipt != 0 {
			c.flight.carry(p.seq, m.Receipt)
		}
	}
	return c.write(b, &p)
}

// write appends p with the fields that every packet of the connection carries.
func (c *Conn) write(b []byte, p *packet) []byte {
	p.app, p.acks = c.options.AppID, c.received
	return p.append(b)
}
