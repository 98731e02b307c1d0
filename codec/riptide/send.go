package riptide

import (
	"time"

	"tidegate/codec"
)

// Send queues a message of mode Unreliable, Reliable or, but for 2.0, Notify. Unreliable and reliable messages have an ID on the
// wire: without HasID it is 0. A notify message has one only with HasID, as the first bytes of its payload. Nobody
// learns what became of an unreliable message: its receipt is answered Lost at once.
func (c *Conn) Send(now time.Time, m codec.Message) error {
	switch {
	case c.state == closed:
		return codec.ErrClosed
	case !c.dialect.modes.Has(m.Mode):
		return codec.ErrMode
	}
	var err error
	switch m.Mode {
	case codec.Unreliable:
		err = c.sendUnreliable(&m)
	case codec.Reliable:
		err = c.sendReliable(&m)
	case codec.Notify:
		err = c.sendNotify(&m)
	}
	if err == nil {
		c.busy = true
		c.launch(now)
	}
	return err
}

// Announce tells a client that another client Joined or Left, reliably. Clients cannot announce.
func (c *Conn) Announce(now time.Time, kind codec.EventKind, client uint16) error {
	n := clientNote{kind: kindClientConnected, seq: c.flight.next, client: client}
	if kind == codec.Left {
		n.kind = kindClientDisconnected
	}
	switch {
	case c.state == closed:
		return codec.ErrClosed
	case !c.server || kind != codec.Joined && kind != codec.Left:
		return codec.ErrMode
	}
	const size = 5
	if err := c.admitsReliable(size); err != nil {
		return err
	}
	c.flight.hold(n.append(c.dialect, c.flight.spare.take(size)), 0)
	c.busy = true
	c.launch(now)
	return nil
}

func (c *Conn) sendUnreliable(m *codec.Message) error {
	var room [maxHeader]byte
	h := userHeader{id: m.ID}
	if err := c.write(kindUnreliable, h.append(c.dialect, room[:0]), m); err != nil {
		return err
	}
	if m.Receipt != 0 {
		c.events.Answer(m.Receipt, false)
	}
	return nil
}

func (c *Conn) sendReliable(m *codec.Message) error {
	var room [maxHeader]byte
	h := userHeader{reliable: true, seq: c.flight.next, id: m.ID}
	head := h.append(c.dialect, room[:0])
	size := c.dialect.size(len(head), len(m.Payload), m.Pad)
	if err := c.admitsReliable(size); err != nil {
		return err
	}
	b := c.dialect.append(c.flight.spare.take(size), kindReliable, head, m.Payload, m.Pad)
	c.flight.hold(b, m.Receipt)
	return nil
}

func (c *Conn) sendNotify(m *codec.Message) error {
	var room [maxHeader]byte
	h := c.notifier.header()
	head := h.append(room[:0])
	if m.HasID {
		head = c.dialect.appendID(head, m.ID)
	}
	if err := c.write(kindNotify, head, m); err != nil {
		return err
	}
	c.notifier.number()
	if m.Receipt == 0 {
		return nil
	}
	if lost := c.notifier.ask(h.seq, m.Receipt); lost != 0 {
		c.events.Answer(lost, false)
	}
	return nil
}

// write queues an unreliable datagram.
func (c *Conn) write(k kind, head []byte, m *codec.Message) error {
	if err := c.admits(c.dialect.size(len(head), len(m.Payload), m.Pad)); err != nil {
		return err
	}
	c.data.end(c.dialect.append(c.data.begin(), k, head, m.Payload, m.Pad))
	return nil
}

// admits reports why a datagram of size bytes may not be queued, if so.
func (c *Conn) admits(size int) error {
	switch {
	case size > c.options.maxDatagram:
		return codec.ErrTooLarge
	case c.queued()+size > c.options.MaxQueued:
		return codec.ErrFull
	}
	return nil
}

func (c *Conn) admitsReliable(size int) error {
	if c.flight.isFull() {
		return codec.ErrFull
	}
	return c.admits(size)
}

// queued is how many bytes of messages wait to be sent or acknowledged.
func (c *Conn) queued() int { return c.flight.bytes + c.data.bytes() }

// say queues a message that is a type alone.
func (c *Conn) say(k kind) {
	if b, ok := c.reply(1); ok {
		c.control.end(c.dialect.append(b, k, nil, nil, 0))
	}
}

// launch sends the reliable messages for which there is room in the air.
func (c *Conn) launch(now time.Time) {
	if c.state != connected {
		return
	}
	for s, ok := c.flight.launch(now, c.options.MaxInFlight); ok; s, ok = c.flight.launch(now, c.options.MaxInFlight) {
		c.data.refer(s)
	}
}

// resendMessages repeats the reliable messages whose acknowledgement is overdue, and gives the connection up when one
// has been sent often enough.
func (c *Conn) resendMessages(now time.Time) {
	for c.state == connected {
		s, m, ok := c.flight.due()
		if !ok || now.Before(m.sentAt.Add(c.resendAfter(m.sends, m.sentAt))) {
			return
		}
		if m.sends >= c.sendLimit(m.sentAt) {
			c.end(codec.PoorConnection)
			return
		}
		if m.sends == 1 {
			c.stats.Lost++
		}
		c.stats.Resent++
		c.flight.resend(now, s)
		c.data.refer(s)
	}
}

// resendAfter is how long a reliable message waits for its acknowledgement after so many sends, the last at a time. The slow pace divides
// TimeoutTime by slowSends, so that the peer has been silent for longer than that when the last of them was in vain.
func (c *Conn) resendAfter(sends uint8, sentAt time.Time) time.Duration {
	after := c.rtt.resend(sends)
	if c.isPatient(sentAt) && sends >= maxSends {
		after = max(after, c.options.TimeoutTime/slowSends)
	}
	return after
}

// sendLimit is how often a reliable message is sent that was sent last at a time.
func (c *Conn) sendLimit(sentAt time.Time) uint8 {
	if c.isPatient(sentAt) {
		return maxSends + slowSends
	}
	return maxSends
}
