package enet

import (
	"time"

	"tidegate/codec"
)

// A session without checksums can be forged by guesses. So a goodbye in such a session needs evidence, see goodbye.
const (
	goodbyePing     = 150 * time.Millisecond // between two pings
	goodbyePatience = 600 * time.Millisecond // for an acknowledgement, beside two round trips
)

// goodbye is a peer's, which is not believed yet: the peer must be silent when it is pinged. The library acknowledges
// nothing after its goodbye but a goodbye.
type goodbye struct {
	heard  time.Time // zero: there is none
	endAt  time.Time
	pingAt time.Time
	data   uint32
}

// hearGoodbye takes a goodbye in session. With checksums it ends the session.
func (c *Conn) hearGoodbye(now time.Time, h *header, cmd *command) {
	if cmd.wantsAck {
		c.acks.add(c.in.now, cmd, h.time)
	}
	data := be.Uint32(cmd.body)
	if c.summed || c.state != connected {
		c.endByPeer(data)
		return
	}
	c.farewell = goodbye{heard: now, data: data}
	c.awaitSign(now)
}

// awaitSign begins to wait for a sign of life.
func (c *Conn) awaitSign(now time.Time) {
	c.farewell.endAt, c.farewell.pingAt = now.Add(goodbyePatience+2*c.rtt.Mean), now.Add(goodbyePing)
}

// doubt forgets a goodbye of a peer that has acknowledged a command from after it.
func (g *goodbye) doubt(sentAt time.Time) {
	if !g.heard.IsZero() && sentAt.After(g.heard) {
		*g = goodbye{}
	}
}

// next returns when stepGoodbye has work; zero: never.
func (g *goodbye) next() time.Time { return codec.Earliest(g.pingAt, g.endAt) }

// stepGoodbye pings a peer that seems to have left, or believes its goodbye.
func (c *Conn) stepGoodbye(now time.Time) {
	g := &c.farewell
	switch {
	case g.heard.IsZero():
	case codec.IsLate(now, g.next()):
		c.awaitSign(now)
	case !now.Before(g.endAt):
		c.endByPeer(g.data)
	case !now.Before(g.pingAt):
		g.pingAt = now.Add(goodbyePing)
		c.pingDue = c.pingDue || c.state == connected
	}
}
