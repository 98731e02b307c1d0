package riptide

import (
	"time"

	"tidegate/codec"
)

// Receive takes one datagram, which holds one message.
func (c *Conn) Receive(now time.Time, datagram []byte) error {
	err := c.receive(now, datagram)
	isGoodbye := err == nil && c.dialect.kindOf(datagram) == kindDisconnect
	if err == nil && !isGoodbye && !c.doubt.believe.IsZero() && now.After(c.doubt.since.Add(doubtGrace)) {
		c.doubt = doubt{} // a datagram long after the peer's goodbye shows that the goodbye is forged
	}
	return c.stats.Count(err)
}

func (c *Conn) receive(now time.Time, d []byte) error {
	switch {
	case c.state == closed:
		return codec.ErrUnexpected
	case len(d) == 0 || len(d) > c.options.maxDatagram:
		return codec.ErrMalformed
	}
	switch k := c.dialect.kindOf(d); {
	case k == kindAck:
		return c.receiveAck(now, d)
	case k >= kindReliable:
		return c.receiveReliable(now, d)
	case k == kindUnreliable:
		return c.receiveUser(d)
	case k == kindNotify:
		return c.receiveNotify(now, d)
	case c.server:
		return c.receiveFromClient(now, k, d)
	default:
		return c.receiveFromServer(now, k, d)
	}
}

func (c *Conn) receiveAck(now time.Time, d []byte) error {
	var a ack
	if err := a.parse(c.dialect, d); err != nil {
		return err
	}
	poor := c.acknowledged(now, a.forSeq, true)
	poor = c.acknowledged(now, a.last, false) || poor
	for i := range seq(16) {
		if a.bits&(1<<i) != 0 {
			poor = c.acknowledged(now, a.last-i-1, false) || poor
		}
	}
	if poor {
		c.end(codec.PoorConnection)
		return nil
	}
	c.sendWaiting(now)
	return nil
}

// acknowledged settles message s, which the peer acknowledges. asked says that this message caused the
// acknowledgement, so that it measures the round trip. The result reports whether the connection is too poor to
// continue.
func (c *Conn) acknowledged(now time.Time, s seq, asked bool) (poor bool) {
	if c.welcomeAcknowledged(now, s) {
		return false
	}
	m, ok := c.flight.acknowledge(s)
	if !ok {
		return false
	}
	if m.sends > 1 {
		c.rtt.starve(m.waited + now.Sub(m.sentAt))
	} else if asked {
		c.rtt.measure(now.Sub(m.sentAt))
	}
	if m.receipt != 0 {
		c.events.Answer(m.receipt, true)
	}
	return c.sends.delivered(m.sends) && !c.options.IgnoreQuality
}

// receiveReliable acknowledges a numbered message, also a duplicate, and handles a new one.
func (c *Conn) receiveReliable(now time.Time, d []byte) error {
	if bodyLen(d) < 2 {
		return codec.ErrMalformed
	}
	if !c.acceptsMessages() && !c.isExpected(d) {
		return codec.ErrUnexpected
	}
	s := seq(c.dialect.uint16At(d, 0))
	verdict := c.window.add(now, s, c.window.prints.Of(d, 0), c.options.TimeoutTime)
	if verdict == beyond {
		return codec.ErrWindow
	}
	a := c.window.acknowledge(s)
	if b, ok := c.reply(7); ok {
		c.control.end(a.append(c.dialect, b))
	}
	if verdict == duplicate {
		return codec.ErrDuplicate
	}
	return c.handle(now, d)
}

// isExpected reports whether numbered message d may arrive before the session: only the Welcome that starts it.
func (c *Conn) isExpected(d []byte) bool {
	if c.server {
		return c.isWelcomeBack(d)
	}
	return c.dialect.kindOf(d) == kindWelcome && bodyLen(d) >= 4
}

// handle handles a reliable message that was not seen before.
func (c *Conn) handle(now time.Time, d []byte) error {
	k := c.dialect.kindOf(d)
	switch {
	case k == kindReliable:
		return c.receiveUser(d)
	case k == kindWelcome && c.server && c.state == welcomed:
		c.open(now)
		c.events.Push(codec.Event{Kind: codec.Connected, Client: c.client})
		return nil
	case k == kindWelcome && !c.acceptsMessages():
		return c.receiveWelcome(now, d)
	case (k == kindClientConnected || k == kindClientDisconnected) && !c.server:
		return c.receiveNews(d)
	}
	return codec.ErrUnexpected
}

func (c *Conn) receiveNews(d []byte) error {
	var n clientNote
	if err := n.parse(c.dialect, d); err != nil {
		return err
	}
	news := codec.Event{Kind: codec.Joined, Client: n.client}
	if n.kind == kindClientDisconnected {
		news.Kind = codec.Left
	}
	c.events.Push(news)
	return nil
}

func (c *Conn) receiveUser(d []byte) error {
	if !c.acceptsMessages() {
		return codec.ErrUnexpected
	}
	var h userHeader
	at, err := h.parse(c.dialect, d)
	if err != nil {
		return err
	}
	m := codec.Message{Mode: codec.Unreliable, ID: h.id, HasID: true}
	if h.reliable {
		m.Mode = codec.Reliable
	}
	c.deliver(m, d, at)
	return nil
}

func (c *Conn) receiveNotify(now time.Time, d []byte) error {
	if !c.acceptsMessages() {
		return codec.ErrUnexpected
	}
	var h notifyHeader
	if err := h.parse(d); err != nil {
		return err
	}
	if err := c.notifier.receive(now, &h); err != nil {
		return err
	}
	if news, lost := c.notifier.acknowledged(&h); news {
		c.stats.Lost += uint64(lost)
		for r, delivered, ok := c.notifier.decide(&h); ok; r, delivered, ok = c.notifier.decide(&h) {
			c.events.Answer(r, delivered)
		}
	}
	c.deliver(codec.Message{Mode: codec.Notify}, d, notifyHeaderLen)
	return nil
}

// deliver reports message m. Its payload begins at byte at of d's body.
func (c *Conn) deliver(m codec.Message, d []byte, at int) {
	c.busy = true
	m.Payload, m.Pad = c.lend(d, at)
	c.events.Push(codec.Event{Kind: codec.Received, Message: m})
}

// lend copies d's body from byte at on to the scratch memory, as bytes.
func (c *Conn) lend(d []byte, at int) (payload []byte, pad uint8) {
	c.scratch, pad = c.dialect.payload(c.scratch[:0], d, at)
	return c.scratch, pad
}

// leastFar is the shortest round trip between proxy and server for which an answer waits.
const leastFar = 2 * time.Millisecond

// deferPong has the answer to a client's heartbeat wait for as long as the server's would take. The client measures the
// round trip by it. It resends messages, and gives the connection up, by that figure. A client sends the next heartbeat
// after HeartbeatInterval, and ignores later answers to this one.
func (c *Conn) deferPong(now time.Time, ping uint8) {
	c.releasePong()
	if c.isMute() {
		return // answered later, it would measure the silence
	}
	c.ticker.ping, c.ticker.pingAt = ping, now
	if far := min(c.rtt.Far, c.options.HeartbeatInterval*3/4); far >= leastFar {
		c.ticker.pingAt = now.Add(far)
	}
	c.stepPong(now)
}

// pongDue returns when the waiting answer is due, or the zero time.
func (c *Conn) pongDue() time.Time {
	if !c.server {
		return time.Time{}
	}
	return c.ticker.pingAt
}

// stepPong answers the heartbeat once the answer is due.
func (c *Conn) stepPong(now time.Time) {
	if !now.Before(c.pongDue()) {
		c.releasePong()
	}
}

// releasePong answers the heartbeat that waits for its answer, if one does.
func (c *Conn) releasePong() {
	if c.pongDue().IsZero() {
		return
	}
	c.ticker.pingAt = time.Time{}
	if c.isMute() {
		return
	}
	if b, ok := c.reply(2); ok {
		c.control.end(appendHeartbeatAnswer(c.dialect, b, c.ticker.ping))
	}
}

var _ codec.Reflector = (*Conn)(nil)

// longestSilence is how long a peer may be silent whose silence the far side is shown. The far peer's own time-out
// ends the session sooner, or the proxy's, if both are gone.
const longestSilence = 30 * time.Second

// IsSilent implements codec.Reflector. A live peer is heard once each HeartbeatInterval, and one heartbeat may be lost.
func (c *Conn) IsSilent(now time.Time) bool {
	return c.state == connected && now.Sub(c.heard) >= c.options.HeartbeatInterval*5/2
}

// Reflects implements codec.Reflector.
func (*Conn) Reflects() bool { return true }

// Reflect implements codec.Reflector. Only heartbeats and their answers count as signs of life, so nothing else is held
// back.
func (c *Conn) Reflect(isSilent, isReflected bool) (released bool) {
	released = c.mute && !isSilent && c.ticker.owed
	c.mute, c.reflected = isSilent, isReflected
	return released
}

// isMute reports whether the peer gets no sign of life. One that may have left is asked whether it is there.
func (c *Conn) isMute() bool { return c.mute && c.state == connected && c.doubt.believe.IsZero() }

// patience returns how long the peer may be silent in session. There is extra time for a late heartbeat: the library
// checks its clock with its own heartbeats, after 5 to 6 s.
func (c *Conn) patience() time.Duration {
	own := c.options.TimeoutTime + c.options.HeartbeatInterval/2
	if c.reflected {
		return max(own, longestSilence)
	}
	return own
}
