package raknet

import (
	"time"

	"tidegate/codec"
)

// parting is how a connection ends in order: what the game queued goes out first and is acknowledged, then the goodbye, and
// then we wait until the peer has acknowledged that.
type parting struct {
	reason  codec.Reason
	byeAt   time.Duration // the goodbye leaves now at the latest
	endAt   time.Duration
	byeSent bool
	flows   bool // messages flowed before, and still do until the end; otherwise the goodbye leaves at once
}

// next is when stepParting has something to do.
func (p *parting) next() time.Duration {
	if p.byeSent {
		return p.endAt
	}
	return p.byeAt
}

// Close says goodbye, or refuses where the client was not admitted. RakNet has no room for data with either.
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
	switch c.phase {
	case probing, waiting: // the server knows nothing of us, or would ban our address for a goodbye
		c.finish(reason)
		return
	case deferred:
		why.Reason = reason
		c.refuse(why)
		return
	}
	at := now.Sub(c.start)
	if c.phase == halfOpen || c.phase == asked {
		c.enqueueRefusal(at, reason)
	}
	c.part(at, reason)
}

// part begins to end the connection.
func (c *Conn) part(now time.Duration, reason codec.Reason) {
	c.parting = parting{
		reason: reason, byeAt: now + c.p.o.CloseTimeout*2/3, endAt: now + c.p.o.CloseTimeout,
		flows: c.phase == connected,
	}
	if !c.parting.flows {
		c.sender.abandonQueue(&c.events)
	}
	c.phase, c.pressure = closing, codec.NoPressure
	c.stepParting(now)
}

// enqueueRefusal says why the client is not let in. It travels as a reliable message, which stock RakNet expects of
// INVALID_PASSWORD and skips for the other reasons; the goodbye behind it then ends the attempt there, too.
func (c *Conn) enqueueRefusal(now time.Duration, reason codec.Reason) {
	id, ok := refusalID(reason)
	switch {
	case !ok:
	case id == idInvalidPassword:
		c.sender.enqueueControl(now, codec.Reliable, []byte{id, 0}, 7) // 9 bits, as stock RakNet has it
	default:
		c.sender.enqueueControl(now, codec.Reliable, c.p.appendRefusal(c.scratch(), id, speaker{guid: c.server}), 0)
	}
}

// stepParting takes the next step of the parting, if it is time.
func (c *Conn) stepParting(now time.Duration) {
	if c.phase != closing {
		return
	}
	p := &c.parting
	if p.byeSent {
		if c.sender.settled() || now >= p.endAt {
			c.finish(p.reason)
		}
		return
	}
	// Of RakNet's own messages, those that matter are ordered as the goodbye is, and so arrive before it.
	if !p.flows || c.sender.count == 0 || c.sender.settled() || now >= p.byeAt {
		p.byeSent = true
		c.sender.enqueueControl(now, codec.ReliableOrdered, []byte{idDisconnectionNotification}, 0)
	}
}

// expireHandshake ends a handshake that took too long. A server that offered its key probably wants to encrypt, but may
// make exceptions, so this is not known before.
func (c *Conn) expireHandshake() {
	switch {
	case !c.dialed:
		c.finish(codec.TimedOut)
	case c.phase == waiting: // the server did what it was asked for
		c.finish(codec.Closed)
	case c.asking != nil && c.asking.reply.encrypts:
		c.finish(codec.Incompatible)
	default:
		c.finish(codec.NoConnection)
	}
}

// expel ends the connection of a peer that broke a bound. It is told once, in a datagram that waits for nothing: neither
// for what was sent before, nor for an acknowledgement.
func (c *Conn) expel() {
	bye := capsule{mode: codec.Unreliable, payload: []byte{idDisconnectionNotification}}
	datagram := bye.append(appendDataHeader(nil, c.sender.flight.next, false, false))
	c.finish(codec.Violation)
	c.offline = datagram
}

// finish ends the connection. Messages that have not settled are lost.
func (c *Conn) finish(reason codec.Reason) { c.end(codec.Event{Reason: reason}) }

// end is finish with what else there is to say of the end.
func (c *Conn) end(e codec.Event) {
	if c.phase == closed {
		return
	}
	c.report()
	c.sender.abandon(&c.events)
	c.receiver.acksAt = 0 // what we got, the peer should know; there is no later
	e.Kind = codec.Disconnected
	c.events.Push(e)
	c.phase, c.asking, c.offline = closed, nil, nil
	c.early, c.receiver.channels = earlyMessages{}, channels{}
	c.receiver.splits.open = nil
}
