package riptide

import (
	"bytes"
	"time"

	"tidegate/codec"
)

// Nothing in a Disconnect is secret, so it may be forged. A peer that says goodbye in session is believed once it does
// not answer. A server answers heartbeats, and a client acknowledges repeated messages. A client whose game stands
// still answers nothing. It has more time, because it cannot have said goodbye.
const (
	doubtGrace = 200 * time.Millisecond // for datagrams that the goodbye has overtaken
	doubtProbe = 60 * time.Millisecond  // between two questions; one answer to some seven is enough
	doubtTime  = 600 * time.Millisecond // how long we wait for an answer, beside two round trips
)

// kindQuestion is a type of message that does not exist. A peer acknowledges it, and drops it.
const kindQuestion kind = 15

// doubt is a goodbye that is not believed yet.
type doubt struct {
	goodbye        codec.Event
	since, believe time.Time // zero: there is none
	probeAt        time.Time // when the peer is asked next
}

// next returns when stepDoubt is due, or the zero time.
func (d *doubt) next() time.Time { return codec.Earliest(d.believe, d.probeAt) }

// hearGoodbye handles a goodbye. Over a stream it cannot be forged, and before the session it is a refusal.
func (c *Conn) hearGoodbye(now time.Time, goodbye codec.Event) {
	switch {
	case c.state != connected || c.options.Stream:
		c.endWith(goodbye)
	case c.doubt.believe.IsZero():
		goodbye.Payload = bytes.Clone(goodbye.Payload)
		c.doubt = doubt{goodbye: goodbye, since: now}
		c.awaitSign(now)
	}
}

// awaitSign begins to wait for a sign of life.
func (c *Conn) awaitSign(now time.Time) {
	c.doubt.believe = now.Add(doubtTime + 2*c.rtt.Smooth)
	if c.server && c.isStalled(now) {
		c.doubt.believe = now.Add(c.options.HeartbeatInterval * 5 / 2)
	}
	c.doubt.probeAt = now.Add(doubtGrace)
}

// isStalled reports whether a client has owed us a sign of life for some time: an acknowledgement, or a heartbeat.
func (c *Conn) isStalled(now time.Time) bool {
	if now.Sub(c.heard) > c.options.HeartbeatInterval*5/4 {
		return true
	}
	m := c.flight.get(c.flight.oldest)
	return m != nil && m.waited+now.Sub(m.sentAt) > doubtGrace+2*c.rtt.Smooth
}

// question asks whether the peer is there. A client gets the number of a message that it has acknowledged, so it drops
// the question as a duplicate.
func (c *Conn) question(now time.Time) {
	if !c.server {
		c.sendHeartbeat(now)
		return
	}
	n := clientNote{kind: kindQuestion, seq: c.flight.oldest - 1}
	if b, ok := c.reply(5); ok {
		c.control.end(n.append(c.dialect, b))
	}
}

// stepDoubt believes a goodbye of a peer that is silent, or asks whether it is there.
func (c *Conn) stepDoubt(now time.Time) {
	d := &c.doubt
	switch {
	case c.state == closed || d.believe.IsZero():
	case codec.IsLate(now, d.next()):
		c.awaitSign(now)
	case !now.Before(d.believe):
		c.endWith(d.goodbye)
	case !d.probeAt.IsZero() && !now.Before(d.probeAt):
		d.probeAt = now.Add(doubtProbe)
		c.question(now)
	}
}

// stillThere notes a datagram of the peer. One that came long after its goodbye shows that the goodbye is forged.
func (c *Conn) stillThere(now time.Time) {
	if !c.doubt.believe.IsZero() && now.After(c.doubt.since.Add(doubtGrace)) {
		c.doubt = doubt{}
	}
}
