package raknet

import (
	"time"

	"tidegate/codec"
)

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
