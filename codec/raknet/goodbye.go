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
	heard         bool
	answered      bool  // a sign of life came
	guessed       bool  // the peer has said nothing, but may have left
	pings         uint8 // to be sent now
	at, patience  time.Duration
	pingAt, endAt time.Duration
}

// next is when stepGoodbye has something to do.
func (g *goodbye) next() (at time.Duration, ok bool) { return min(g.pingAt, g.endAt), g.heard }

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
	if !c.goodbye.heard {
		patience := goodbyePatience + 2*c.keepalive.rtt.smoothed
		c.receiver.acksAt = now // a peer that leaves waits for it
		c.goodbye = goodbye{heard: true, at: now, patience: patience}
		c.awaitSign(now)
	}
}

// awaitSign begins to wait for a sign of life.
func (c *Conn) awaitSign(now time.Duration) {
	g := &c.goodbye
	g.pingAt, g.endAt = c.nextTick(now+goodbyePing), c.nextTick(now+g.patience)
}

// stepGoodbye pings a peer that seems to have left, or believes its goodbye.
func (c *Conn) stepGoodbye(now time.Duration) {
	g := &c.goodbye
	switch {
	case !g.heard || c.phase != connected:
	case now-min(g.pingAt, g.endAt) > codec.MostLate:
		c.awaitSign(now)
	case now >= g.endAt:
		c.finish(codec.Closed)
	case now >= g.pingAt:
		g.pings = goodbyePair
		if g.pingAt = c.nextTick(now + goodbyeAgain); g.pingAt > g.endAt-goodbyeAnswer {
			g.pingAt = g.endAt // it does not ping then, unless endAt has moved
		}
	}
}

// awaitsSign reports whether nothing but pings may be in flight, to a peer that has said goodbye. Nothing is repeated
// then.
func (c *Conn) awaitsSign() bool {
	return c.goodbye.heard && !c.goodbye.answered && c.phase == connected && c.sender.count == 0 &&
		!c.quirks.literal
}

// doubtGoodbye notes a sign of life: a new message of the peer that came at a time, or its answer to a datagram of ours
// that left at a time. A sign from well after the goodbye shows that the peer was there.
func (c *Conn) doubtGoodbye(now, at time.Duration) {
	g := &c.goodbye
	if !g.heard || at < g.at+goodbyePing {
		return
	}
	g.answered, g.endAt = true, c.nextTick(now+g.patience)
	g.heard = now < g.at+goodbyeDoubt
}

func (g *goodbye) save() savedGoodbye {
	return savedGoodbye{
		Heard: g.heard, Answered: g.answered, Guessed: g.guessed, Pings: g.pings,
		At: g.at, Patience: g.patience, PingAt: g.pingAt, EndAt: g.endAt,
	}
}

func (v *savedGoodbye) restore() goodbye {
	return goodbye{
		heard: v.Heard, answered: v.Answered, guessed: v.Guessed, pings: min(v.Pings, goodbyePair),
		at: v.At, patience: v.Patience, pingAt: v.PingAt, endAt: v.EndAt,
	}
}

// Doubt implements codec.Leaver.
func (c *Conn) Doubt(now time.Time) bool {
	if c.phase != connected {
		return false
	}
	if !c.goodbye.heard {
		c.hearGoodbye(now.Sub(c.start))
		c.goodbye.guessed = true
	}
	return !c.goodbye.answered
}

// isBareGoodbye reports whether a datagram is a goodbye outside the reliability layer. rust-raknet 0.12 sends nothing
// else when it closes a connection before its next tick.
func isBareGoodbye(datagram []byte) bool {
	return len(datagram) == 1 && datagram[0] == idDisconnectionNotification
}

var _ codec.Leaver = (*Conn)(nil)

// Believe implements codec.Leaver.
func (c *Conn) Believe(time.Time) bool {
	if !c.goodbye.heard || c.goodbye.guessed || c.phase != connected {
		return false
	}
	c.occupy()
	c.recycle()
	c.finish(codec.Closed)
	return true
}
