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
		!c.quirks.literal
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
