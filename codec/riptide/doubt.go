package riptide

import (
	"bytes"
	"time"

	"tidegate/codec"
)

// Nothing in a Disconnect is secret, so it may be forged. A peer that says goodbye in session is believed once it is
// silent. A client sends a heartbeat each second. A server answers heartbeats, so our client asks it.
const (
	doubtGrace  = 200 * time.Millisecond // for datagrams that the goodbye has overtaken
	doubtProbe  = 60 * time.Millisecond  // between two heartbeats of our client; one answer of some seven is enough
	doubtClient = 600 * time.Millisecond // how long our client waits for an answer, beside two round trips
)

// doubt is a goodbye that is not believed yet.
type doubt struct {
	goodbye        codec.Event
	since, believe time.Time // zero: there is none
	probeAt        time.Time // of our client
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
	c.doubt.believe = now.Add(c.options.HeartbeatInterval * 5 / 2)
	if !c.server {
		c.doubt.believe = now.Add(doubtClient + 2*c.rtt.smooth)
		c.doubt.probeAt = now.Add(doubtGrace)
	}
}

// stepDoubt believes a goodbye of a peer that is silent, or asks a server whether it is there.
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
		c.sendHeartbeat(now)
	}
}

// stillThere notes a datagram of the peer. One that came long after its goodbye shows that the goodbye is forged.
func (c *Conn) stillThere(now time.Time) {
	if !c.doubt.believe.IsZero() && now.After(c.doubt.since.Add(doubtGrace)) {
		c.doubt = doubt{}
	}
}
