package rudp

import (
	"time"

	"tidegate/codec"
)

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
		c.hearGoodbye(now, p)
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
		m := codec.Message{Payload: p.data, Mode: codec.UnreliableSequenced}
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
