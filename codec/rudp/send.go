package rudp

import (
	"fmt"
	"time"

	"tidegate/codec"
)

// errEmpty refuses a message without payload. Joined with other messages it would be invisible.
var errEmpty = fmt.Errorf("rudp: empty message: %w", codec.ErrMode)

// Send queues a message for the packet of this period, or for a later one if that packet is full.
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
	return nil
}

// appendDue appends the packet of this period.
func (c *Conn) appendDue(now time.Time, b []byte) []byte {
	switch c.state {
	case dialing:
		return c.appendRequest(b)
	case admitted:
		return c.appendAccept(now, b)
	}
	p := packet{seq: c.flight.number(now), kind: kindKeepAlive}
	var messages []waiting
	if c.outbox.count() > 0 {
		p.kind = kindData
		p.data, messages = c.outbox.take(c.options.MaxJoined)
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
