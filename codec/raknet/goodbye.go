package raknet

import (
	"time"

	"tidegate/codec"
)

// A goodbye may be forged, since nothing in it is secret. So a peer that says goodbye is pinged for a while. One that
// has left acknowledges none of the pings. The first waits until a peer that leaves has been told that its goodbye
// came.
const (
	goodbyePing     = 150 * time.Millisecond // between two pings
	goodbyePatience = 600 * time.Millisecond // for an acknowledgement, beside two round trips
	goodbyeDoubt    = 4 * time.Second        // how long a peer is pinged that goes on to answer
)

// goodbye is one that the peer has said, and that is not believed yet.
type goodbye struct {
	heard         bool
	at, patience  time.Duration
	pingAt, endAt time.Duration
}

// next is when stepGoodbye has something to do.
func (g *goodbye) next() (at time.Duration, ok bool) { return min(g.pingAt, g.endAt), g.heard }

// hearGoodbye takes a goodbye: after the handshake, it needs evidence.
func (c *Conn) hearGoodbye(now time.Duration) {
	if c.phase != connected {
		c.finish(c.goodbyeReason())
		return
	}
	if !c.goodbye.heard {
		patience := goodbyePatience + 2*c.keepalive.rtt.smoothed
		c.receiver.acksAt = now // a peer that leaves waits for it
		c.goodbye = goodbye{heard: true, at: now, pingAt: now + goodbyePing, endAt: now + patience, patience: patience}
	}
}

// stepGoodbye pings a peer that seems to have left, or believes its goodbye.
func (c *Conn) stepGoodbye(now time.Duration) {
	g := &c.goodbye
	switch {
	case !g.heard || c.phase != connected:
	case now >= g.endAt:
		c.finish(codec.Closed)
	case now >= g.pingAt:
		g.pingAt = now + goodbyePing
		c.keepalive.ask(now, codec.Reliable)
	}
}

// doubtGoodbye notes that the peer has acknowledged a datagram that left at a time. One from after its goodbye shows
// that the peer was there.
func (c *Conn) doubtGoodbye(now, sentAt time.Duration) {
	g := &c.goodbye
	if !g.heard || sentAt < g.at+goodbyePing {
		return
	}
	g.endAt = now + g.patience
	g.heard = now < g.at+goodbyeDoubt
}

// isBareGoodbye reports whether a datagram is a goodbye outside the reliability layer. rust-raknet 0.12 sends nothing
// else when it closes a connection before its next tick.
func isBareGoodbye(datagram []byte) bool {
	return len(datagram) == 1 && datagram[0] == idDisconnectionNotification
}

var _ codec.Leaver = (*Conn)(nil)

// Believe implements codec.Leaver.
func (c *Conn) Believe(time.Time) bool {
	if !c.goodbye.heard || c.phase != connected {
		return false
	}
	c.occupy()
	c.recycle()
	c.finish(codec.Closed)
	return true
}
