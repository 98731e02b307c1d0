package rudp

import (
	"time"

	"tidegate/codec"
)

// requestInterval is the time between a client's requests. The library's clients send one request.
const requestInterval = 250 * time.Millisecond

// dial makes the client's side of a session. docs/protocols/rudp.md#client
func dial(p *Protocol, now time.Time) *Conn {
	o := &p.options
	c := &Conn{
		options:  o,
		state:    dialing,
		received: acks{last: o.base - 1},
		flight:   newFlight(now, o.base+1), // the request is number 0 and counts as acknowledged
		deadline: now.Add(o.DialTimeout),
		tickAt:   now,
	}
	c.repeatRequest(now)
	return c
}

// repeatRequest makes another request due. A real server refuses all requests but the first until it has decided.
func (c *Conn) repeatRequest(now time.Time) {
	c.attempts++
	c.due = true
	c.schedule(now, requestInterval)
}

func (c *Conn) appendRequest(b []byte) []byte {
	p := packet{app: c.options.AppID, seq: c.options.base, acks: acks{last: c.options.base}, kind: kindRequest}
	return p.append(b)
}

// receiveAnswer takes a server's answer to our request.
func (c *Conn) receiveAnswer(now time.Time, p *packet) error {
	switch {
	case p.kind == kindRefuse:
		c.receiveRefuse(p)
		return nil
	case p.kind != kindAccept || p.app != c.options.AppID:
		return codec.ErrUnexpected
	case p.seq.minus(c.received.last) <= 0 || !c.flight.allows(p.acks.last):
		return codec.ErrWindow
	}
	var t terms
	if err := t.parse(p.data); err != nil {
		return err
	}
	c.received.add(p.seq)
	c.heard = now
	c.period = periodOf(t.rate)
	c.tickAt = now.Add(c.period)
	c.due = false
	c.open()
	return nil
}

// receiveRefuse takes a Refuse. A server of another application sends its own AppID. A real server of our application
// also refuses a repeated request while the first one waits. If we have sent several, an answer to the first may still
// come, so the client waits and sends nothing more.
func (c *Conn) receiveRefuse(p *packet) {
	switch {
	case p.app != c.options.AppID:
		c.end(codec.Incompatible)
	case c.attempts == 1:
		c.end(codec.Rejected)
	default:
		c.refused, c.due = true, false
		c.tickAt = time.Time{}
	}
}
