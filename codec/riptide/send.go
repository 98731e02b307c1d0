package riptide

import (
	"time"

	"tidegate/codec"
)

// Send queues a message of mode Unreliable, Reliable or, except in 2.0, Notify. Unreliable and reliable messages have
// an ID on the wire: without HasID it is 0. A notify message has an ID only with HasID, as the first bytes of its
// payload. The fate of an unreliable message stays unknown, so its receipt is answered Lost at once.
func (c *Conn) Send(now time.Time, m codec.Message) error {
	switch {
	case c.state == closed:
		return codec.ErrClosed
	case !c.dialect.modes.Has(m.Mode):
		return codec.ErrMode
	case m.Mode != codec.Notify && !c.server && c.options.isKiller(m.ID):
		return codec.ErrKiller
	}
	var err error
	switch m.Mode {
	case codec.Unreliable:
		err = c.sendUnreliable(&m)
	case codec.Reliable:
		err = c.sendReliable(&m)
	case codec.Notify:
		err = c.sendNotify(now, &m)
	}
	if err == nil {
		c.busy = true
		c.sendWaiting(now)
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
	c.sendWaiting(now)
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

func (c *Conn) sendNotify(now time.Time, m *codec.Message) error {
	var room [maxHeader]byte
	h := c.notifier.header()
	head := h.append(room[:0])
	if m.HasID {
		head = c.dialect.appendID(head, m.ID)
	}
	if err := c.write(kindNotify, head, m); err != nil {
		return err
	}
	c.notifier.number(now, c.rtt.Smooth)
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
	if err := c.checkRoom(c.dialect.size(len(head), len(m.Payload), m.Pad)); err != nil {
		return err
	}
	c.data.end(c.dialect.append(c.data.begin(), k, head, m.Payload, m.Pad))
	return nil
}

// checkRoom returns an error if a datagram of size bytes may not be queued.
func (c *Conn) checkRoom(size int) error {
	switch {
	case size > min(c.options.maxDatagram, codec.MaxDatagram-c.options.Headroom):
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
	return c.checkRoom(size)
}

// queued returns the bytes of messages that wait to be sent or acknowledged.
func (c *Conn) queued() int { return c.flight.bytes + c.data.bytes() }

// sendWaiting sends the waiting reliable messages for which the flight has room.
func (c *Conn) sendWaiting(now time.Time) {
	if c.state != connected {
		return
	}
	limit := c.options.MaxInFlight
	for s, ok := c.flight.transmitNext(now, limit); ok; s, ok = c.flight.transmitNext(now, limit) {
		c.data.refer(s)
	}
}

// resendMessages repeats the reliable messages with an overdue acknowledgement. It gives the connection up when a
// message has been sent often enough.
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

// resendAfter returns how long a reliable message waits for its acknowledgement, after the given number of sends, the
// last at sentAt. The slow pace divides TimeoutTime by slowSends. So the peer has been silent for longer than
// TimeoutTime when the last slow transmission fails.
func (c *Conn) resendAfter(sends uint8, sentAt time.Time) time.Duration {
	after := c.rtt.resend(sends)
	if c.isPatient(sentAt) && sends >= maxSends {
		after = max(after, c.options.TimeoutTime/slowSends)
	}
	return after
}

// sendLimit returns how often a reliable message is sent. sentAt is its last transmission.
func (c *Conn) sendLimit(sentAt time.Time) uint8 {
	if c.isPatient(sentAt) {
		return maxSends + slowSends
	}
	return maxSends
}
