package riptide

import (
	"time"

	"tidegate/codec"
)

// accept makes the server's side of a session from a client's Connect, and tells the client that it is pending.
// docs/protocols/riptide.md#server
func accept(p *Protocol, now time.Time, connect []byte) *Conn {
	c := newConn(p, now)
	c.server = true
	c.state = asked
	c.stats.Received = 1
	if b, ok := c.reply(1); ok {
		c.control.end(c.dialect.append(b, kindConnect, nil, nil, 0))
	}
	asks := codec.Event{Kind: codec.Asked}
	asks.Payload, asks.Pad = c.lend(connect, 0)
	c.events.Push(asks)
	return c
}

// Admit sends the Welcome that assigns the client's ID. The client's own Welcome starts the session.
func (c *Conn) Admit(now time.Time, client uint16) {
	if c.state != asked {
		return
	}
	c.state = welcomed
	c.client = client
	c.heard = now
	c.sendWelcome(now)
}

// dismiss says goodbye to a client, or refuses it. A client that has its Welcome and has not answered yet may or may
// not count itself as connected. dismiss refuses such a client, which a connected one ignores, and then says goodbye.
func (c *Conn) dismiss(why codec.Goodbye) {
	if c.state != connected {
		f := rejection(why)
		for range c.dialect.rejectRepeats {
			c.control.end(f.append(c.dialect, c.control.begin(), c.options.maxDatagram, why.Data, why.Pad))
		}
	}
	if c.state >= welcomed {
		f := disconnection(c.dialect, why)
		c.data.end(f.append(c.dialect, c.data.begin(), c.options.maxDatagram, why.Data, why.Pad))
	}
}

// receiveFromClient handles the messages that only a client sends. Before its Welcome a client may send only Connect,
// Ack and Welcome. Real servers accept more.
func (c *Conn) receiveFromClient(now time.Time, k kind, d []byte) error {
	switch {
	case k == kindConnect:
		return codec.ErrDuplicate // the client already has an answer; the next one is Admit or Close
	case c.state != connected:
		return codec.ErrUnexpected
	case k == kindHeartbeat:
		return c.answerHeartbeat(now, d)
	case k == kindDisconnect:
		c.hearGoodbye(now, codec.Event{Kind: codec.Disconnected, Reason: codec.Closed})
		return nil
	}
	return codec.ErrUnexpected
}

func (c *Conn) answerHeartbeat(now time.Time, d []byte) error {
	var h heartbeat
	if err := h.parse(c.dialect, d); err != nil {
		return err
	}
	c.heard = now
	if claimed := time.Duration(h.rtt) * time.Millisecond; claimed > 0 && claimed <= c.options.TimeoutTime {
		c.rtt.claim(claimed - c.rtt.Far)
	}
	c.relax()
	c.deferPong(now, h.ping)
	return nil
}

// isWelcomeBack reports whether d is the Welcome of an admitted client that echoes the assigned ID.
func (c *Conn) isWelcomeBack(d []byte) bool {
	var n clientNote
	return c.state == welcomed && c.dialect.kindOf(d) == kindWelcome && n.parse(c.dialect, d) == nil &&
		n.client == c.client
}

// firstSeq is the number of the first reliable message of each direction, which is Welcome, and of the first notify.
const firstSeq seq = 1

// welcome is the transmission of our Welcome. It is separate from the flight, because it precedes the session.
type welcome struct {
	waiting bool      `cbor:"1,keyasint,omitempty"` // waits for its acknowledgement
	sends   uint8     `cbor:"2,keyasint,omitempty"`
	sentAt  time.Time `cbor:"3,keyasint,omitempty"`
}

// sendWelcome sends Welcome once more.
func (c *Conn) sendWelcome(now time.Time) {
	c.welcome.waiting = true
	c.welcome.sends++
	c.welcome.sentAt = now
	n := clientNote{kind: kindWelcome, seq: c.options.first, client: c.client}
	if b, ok := c.reply(5); ok {
		c.control.end(n.append(c.dialect, b))
	}
}

// resendWelcome repeats Welcome when it is due. If all transmissions of a server fail, it falls silent and waits for
// its deadline. A client, whose session has begun, gives up.
func (c *Conn) resendWelcome(now time.Time) {
	if !c.welcome.waiting || now.Before(c.welcome.sentAt.Add(c.resendAfter(c.welcome.sends, c.welcome.sentAt))) {
		return
	}
	limit := uint8(maxSends)
	if c.state == connected {
		limit = c.sendLimit(c.welcome.sentAt)
	}
	if c.welcome.sends < limit {
		c.stats.Resent++
		c.sendWelcome(now)
		return
	}
	c.welcome.waiting = false
	if c.state == connected {
		c.end(codec.PoorConnection)
	}
}

// welcomeAcknowledged handles the acknowledgement of our Welcome. It reports whether s was that.
func (c *Conn) welcomeAcknowledged(now time.Time, s seq) bool {
	if s != c.options.first || !c.welcome.waiting {
		return false
	}
	c.welcome.waiting = false
	if c.welcome.sends == 1 {
		c.rtt.measure(now.Sub(c.welcome.sentAt))
	}
	return true
}
