package raknet

import (
	"time"

	"tidegate/codec"
)

// A goodbye may be forged, since nothing in it is secret. So a peer that says goodbye is pinged for a while. One that
// has left sends no message, and acknowledges none of the pings. The first pings wait until a peer that leaves has
// been told that its goodbye came. A ping is reliable, so that it also counts for a peer whose window a forger has
// moved.
//
// Pings leave in pairs, and a session that ends has three pairs. The two datagrams of a pair leave in one call, and
// both cost little more than one. Each is a new message, because a peer answers a new ping by an acknowledgement and
// a pong, and a repeated one by an acknowledgement only. So pings are not repeated before the peer has answered one.
//
// If each datagram is lost with a chance of 10 %, all answers to a pair are lost with 1.2 to 2 %, and those to three
// pairs with at most one in 120,000. With 30 % it is 13 to 17 %, and at most one in 200. The larger figures are of a
// peer whose answers to a pair share two datagrams.
const (
	goodbyePing     = 150 * time.Millisecond // until the first pings
	goodbyeAgain    = 100 * time.Millisecond // from pings to the next ones, beside the wait for a tick
	goodbyeAnswer   = 100 * time.Millisecond // for the last pings to be answered
	goodbyePair     = 2                      // pings at a time
	goodbyePatience = 600 * time.Millisecond // for an acknowledgement, beside two round trips
	goodbyeDoubt    = 4 * time.Second        // how long a peer is pinged that goes on to answer
	goodbyeTick     = 50 * time.Millisecond  // pings, and ends, of many connections share a turn
)

// goodbye is one that the peer has said, and that is not believed yet.
type goodbye struct {
	Heard    bool          `cbor:"1,keyasint,omitempty"`
	Answered bool          `cbor:"6,keyasint,omitempty"` // a sign of life came
	Pings    uint8         `cbor:"7,keyasint,omitempty"` // to be sent now
	Guessed  bool          `cbor:"8,keyasint,omitempty"` // the peer has said nothing, but may have left
	At       time.Duration `cbor:"2,keyasint,omitempty"`
	Patience time.Duration `cbor:"3,keyasint,omitempty"`
	PingAt   time.Duration `cbor:"4,keyasint,omitempty"`
	EndAt    time.Duration `cbor:"5,keyasint,omitempty"`
}

// next is when stepGoodbye has something to do.
func (g *goodbye) next() (at time.Duration, ok bool) { return min(g.PingAt, g.EndAt), g.Heard }

// nextTick returns the next tick from a time on. All connections have the same ticks.
func (c *Conn) nextTick(at time.Duration) time.Duration {
	return at + goodbyeTick - time.Duration(c.start.Add(at).UnixNano())%goodbyeTick
}

// hearGoodbye takes a goodbye: after the handshake, it needs evidence.
func (c *Conn) hearGoodbye(now time.Duration) {
	if c.phase != connected {
		c.finish(c.goodbyeReason())
		return
	}
	if !c.goodbye.Heard {
		patience := goodbyePatience + 2*c.keepalive.RTT.Smoothed
		c.receiver.AcksAt = now // a peer that leaves waits for it
		c.goodbye = goodbye{Heard: true, At: now, Patience: patience}
		c.awaitSign(now)
	}
}

// awaitSign begins to wait for a sign of life.
func (c *Conn) awaitSign(now time.Duration) {
	g := &c.goodbye
	g.PingAt, g.EndAt = c.nextTick(now+goodbyePing), c.nextTick(now+g.Patience)
}

// stepGoodbye pings a peer that seems to have left, or believes its goodbye.
func (c *Conn) stepGoodbye(now time.Duration) {
	g := &c.goodbye
	switch {
	case !g.Heard || c.phase != connected:
	case now-min(g.PingAt, g.EndAt) > codec.MostLate:
		c.awaitSign(now)
	case now >= g.EndAt:
		c.finish(codec.Closed)
	case now >= g.PingAt:
		g.Pings = goodbyePair
		if g.PingAt = c.nextTick(now + goodbyeAgain); g.PingAt > g.EndAt-goodbyeAnswer {
			g.PingAt = g.EndAt // it does not ping then, unless endAt has moved
		}
	}
}

// awaitsSign reports whether nothing but pings may be in flight, to a peer that has said goodbye. Nothing is repeated
// then.
func (c *Conn) awaitsSign() bool {
	return c.goodbye.Heard && !c.goodbye.Answered && c.phase == connected && c.sender.count == 0 &&
		!c.sender.flight.Literal
}

// doubtGoodbye notes a sign of life: a new message of the peer that came at a time, or its answer to a datagram of ours
// that left at a time. A sign from well after the goodbye shows that the peer was there.
func (c *Conn) doubtGoodbye(now, at time.Duration) {
	g := &c.goodbye
	if !g.Heard || at < g.At+goodbyePing {
		return
	}
	g.Answered, g.EndAt = true, c.nextTick(now+g.Patience)
	g.Heard = now < g.At+goodbyeDoubt
}

// Doubt implements codec.Leaver.
func (c *Conn) Doubt(now time.Time) bool {
	if c.phase != connected {
		return false
	}
	if !c.goodbye.Heard {
		c.hearGoodbye(now.Sub(c.start))
		c.goodbye.Guessed = true
	}
	return !c.goodbye.Answered
}

// isBareGoodbye reports whether a datagram is a goodbye outside the reliability layer. rust-raknet 0.12 sends nothing
// else when it closes a connection before its next tick.
func isBareGoodbye(datagram []byte) bool {
	return len(datagram) == 1 && datagram[0] == idDisconnectionNotification
}

var _ codec.Leaver = (*Conn)(nil)

// Believe implements codec.Leaver.
func (c *Conn) Believe(time.Time) bool {
	if !c.goodbye.Heard || c.goodbye.Guessed || c.phase != connected {
		return false
	}
	c.occupy()
	c.recycle()
	c.finish(codec.Closed)
	return true
}

// shutdown is the orderly end of a connection. The game's queued messages are sent and acknowledged first. Then the
// goodbye is sent, and the connection waits for its acknowledgement.
type shutdown struct {
	Reason  codec.Reason  `cbor:"1,keyasint,omitempty"`
	ByeAt   time.Duration `cbor:"2,keyasint,omitempty"` // the goodbye leaves at this time at the latest
	EndAt   time.Duration `cbor:"3,keyasint,omitempty"`
	ByeSent bool          `cbor:"4,keyasint,omitempty"`
	// Flows says that game messages were possible, and still are until the end. Otherwise the goodbye leaves at once.
	Flows bool `cbor:"5,keyasint,omitempty"`
}

// next returns when stepShutdown has work.
func (p *shutdown) next() time.Duration {
	if p.ByeSent {
		return p.EndAt
	}
	return p.ByeAt
}

// Close says goodbye, or refuses a client that was not admitted. RakNet has no room for data in either. A C++ player
// whose server is lost hears nothing more.
func (c *Conn) Close(now time.Time, why codec.Goodbye) {
	if c.phase >= closing {
		return
	}
	c.occupy()
	c.recycle()
	reason := why.Reason
	if reason == codec.ReasonNone {
		reason = codec.Closed
	}
	if why.Lost && c.phase == connected && c.Reflects() {
		c.receiver.acks.clear()
		c.finish(reason)
		return
	}
	switch c.phase {
	case probing, waiting: // the server does not know us yet, or would ban our address for a goodbye
		c.finish(reason)
		return
	case deferred:
		why.Reason = reason
		c.refuse(why)
		return
	}
	if why.Deaf && c.phase == connected {
		c.expel(reason)
		return
	}
	at := now.Sub(c.start)
	if c.phase == halfOpen || c.phase == asked {
		c.enqueueRefusal(at, reason)
	}
	c.startShutdown(at, reason)
}

// startShutdown begins to end the connection.
func (c *Conn) startShutdown(now time.Duration, reason codec.Reason) {
	c.shutdown = shutdown{
		Reason: reason, ByeAt: now + c.p.o.CloseTimeout*2/3, EndAt: now + c.p.o.CloseTimeout,
		Flows: c.phase == connected,
	}
	if !c.shutdown.Flows {
		c.sender.abandonQueue(&c.events)
	}
	c.phase, c.pressure = closing, codec.NoPressure
	c.stepShutdown(now)
}

// enqueueRefusal sends the client the reason of its refusal. It travels as a reliable message. Stock RakNet expects
// that for INVALID_PASSWORD and ignores the other reasons. The goodbye behind those then ends the attempt there, too.
func (c *Conn) enqueueRefusal(now time.Duration, reason codec.Reason) {
	id, ok := refusalID(reason)
	switch {
	case !ok:
	case id == idInvalidPassword:
		c.sender.enqueueControl(now, codec.Reliable, []byte{id, 0}, 7) // 9 bits, as in stock RakNet
	default:
		c.sender.enqueueControl(now, codec.Reliable, c.p.appendRefusal(c.scratch(), id, serverIdentity{guid: c.server}), 0)
	}
}

// stepShutdown takes the next step of the shutdown, if it is due.
func (c *Conn) stepShutdown(now time.Duration) {
	if c.phase != closing {
		return
	}
	p := &c.shutdown
	if p.ByeSent {
		if c.sender.settled() || now >= p.EndAt {
			c.finish(p.Reason)
		}
		return
	}
	// RakNet's own messages that matter are ordered like the goodbye, and so precede it.
	if !p.Flows || c.sender.count == 0 || c.sender.settled() || now >= p.ByeAt {
		p.ByeSent = true
		if c.refusesPassword() {
			return // it ends the attempt there, and a goodbye would be told to the game, too
		}
		c.sender.enqueueControl(now, codec.ReliableOrdered, []byte{idDisconnectionNotification}, 0)
	}
}

// refusesPassword reports whether a client has been told that its password is wrong. Only C++ games of any version have
// passwords, and their servers say no more.
func (c *Conn) refusesPassword() bool {
	return c.shutdown.Reason == codec.InvalidPassword && !c.shutdown.Flows && !c.dialed
}

// expireHandshake ends a handshake that took too long. A server that offered its key probably demands encryption. But
// it may make exceptions, so only the time-out shows it.
func (c *Conn) expireHandshake() {
	switch {
	case !c.dialed:
		c.finish(codec.TimedOut)
	case c.phase == waiting: // the server answered in time
		c.finish(codec.Closed)
	case c.attempt != nil && c.attempt.reply.encrypts:
		c.finish(codec.Incompatible)
	default:
		c.finish(codec.NoConnection)
	}
}

// expel ends the connection of a peer that broke a bound. It sends the goodbye once, in a datagram that waits neither
// for earlier messages nor for an acknowledgement.
func (c *Conn) expel(reason codec.Reason) {
	bye := capsule{mode: codec.Unreliable, payload: []byte{idDisconnectionNotification}}
	datagram := bye.append(appendDataHeader(nil, c.sender.flight.next, false, false))
	c.finish(reason)
	c.offline = datagram
}

// finish ends the connection. Unsettled messages are lost.
func (c *Conn) finish(reason codec.Reason) { c.end(codec.Event{Reason: reason}) }

// end is finish with further data of the Disconnected event.
func (c *Conn) end(e codec.Event) {
	if c.phase == closed {
		return
	}
	c.report()
	c.sender.abandon(&c.events)
	c.receiver.AcksAt = 0 // last chance to acknowledge the received datagrams
	e.Kind = codec.Disconnected
	c.events.Push(e)
	c.phase, c.attempt, c.offline = closed, nil, nil
	c.early, c.receiver.channels = earlyMessages{}, channels{}
	c.receiver.splits.clear()
}
