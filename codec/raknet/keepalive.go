package raknet

import (
	"cmp"
	"time"

	"tidegate/codec"
)

const (
	// activePing is the interval of round-trip measurements while the game sends. A ping travels with other data, or
	// after pingPatience more by itself.
	activePing   = time.Second
	pingPatience = activePing / 2
	// untimedPing is the interval for peers that send again only on request: a pong shows the losses before it.
	untimedPing = 250 * time.Millisecond
	// mostUnanswered is the number of pings that are repeated sooner for lack of a pong.
	mostUnanswered = 5
	// A pong waits for the round trip to the far peer: not below leastFar, and never longer than mostFar.
	leastFar = 5 * time.Millisecond
	mostFar  = time.Second
	// leastPing is the shortest interval of pings that look for a queue on the path.
	leastPing = 50 * time.Millisecond
)

// keepalive notices a dead peer, keeps a live peer from giving us up, and answers its pings
// (docs/protocols/raknet/recovery.md#recovery-and-congestion).
type keepalive struct {
	heardAt    time.Duration // any datagram
	activeAt   time.Duration // a message of the game, in either direction
	pingedAt   time.Duration
	pingDue    bool
	pingMode   codec.Mode    // mode of the due ping
	pong       bool          // a ping of the peer wants its pong, at pongAt
	ponged     bool          // our last ping got its answer
	askedAt    time.Duration // when the first reliable data left after heardAt
	untimed    bool          // quirks.untimed
	reflected  bool          // as Reflect has said: a silent peer must be noticed soon
	unanswered uint8         // unanswered pings in a row
	pongTime   uint64        // time of that ping
	pongClock  uint64        // our own time for the pong; 0: an older release has saved the ping
	pongAt     time.Duration
	far        time.Duration // round trip to the far peer, which the pong waits for
	sentTime   uint64        // time in our last ping
	sentAt     time.Duration
	rtt        rtt // round trips of pings, which the peer answers sooner than it acknowledges
}

// start begins with a connection. The first ping travels with the game's first messages, and for an untimed peer it
// shows losses at once.
func (k *keepalive) start(now time.Duration) {
	k.heardAt, k.pingedAt = now, now-activePing
	if k.untimed {
		k.ask(now, codec.Unreliable)
	}
	if k.activeAt == 0 {
		k.activeAt = k.pingedAt
	}
}

// next returns when stepKeepalive has work.
func (k *keepalive) next(s *sender, timeout time.Duration) time.Duration {
	next := k.heardAt + timeout
	if at, ok := k.reliablePingAt(s, timeout); ok {
		next = min(next, at)
	}
	if at, ok := k.ownPingAt(); ok {
		next = min(next, at)
	}
	if k.pong {
		next = min(next, k.pongAt)
	}
	return next
}

// reliablePingAt returns when to break the silence with a ping that a live peer must acknowledge. While other reliable
// data is under way, that serves the same purpose.
func (k *keepalive) reliablePingAt(s *sender, timeout time.Duration) (time.Duration, bool) {
	if k.reflected {
		timeout /= 2
	}
	return max(s.reliableAt, k.pingedAt) + timeout/2, s.settled()
}

// asked notes a datagram that has left.
func (k *keepalive) asked(now time.Duration, s *sender) {
	if k.askedAt <= k.heardAt && !s.settled() {
		k.askedAt = now
	}
}

// activePingAt returns when to measure the round trip again, or to repeat a ping that shows losses.
func (k *keepalive) activePingAt() (time.Duration, bool) {
	if k.untimed {
		patience := max(untimedPing, k.rtt.timeout()) << min(k.unanswered, 3)
		return k.pingedAt + patience, k.activeAt > k.pingedAt || !k.ponged && k.unanswered < mostUnanswered
	}
	return k.pingedAt + activePing, k.activeAt > k.pingedAt
}

// ownPingAt returns when that ping travels by itself.
func (k *keepalive) ownPingAt() (time.Duration, bool) {
	at, ok := k.activePingAt()
	if !k.untimed {
		at += pingPatience
	}
	return at, ok
}

// stepKeepalive sends a ping, or gives up a silent peer.
func (c *Conn) stepKeepalive(now time.Duration) {
	k := &c.keepalive
	if now >= k.heardAt+c.p.o.Timeout {
		reason := codec.TimedOut
		if c.goodbye.heard { // so it has left
			reason = codec.Closed
		}
		c.finish(reason)
		return
	}
	if at, ok := k.reliablePingAt(&c.sender, c.p.o.Timeout); ok && now >= at {
		k.ask(now, codec.Reliable)
	}
	if at, ok := k.ownPingAt(); ok && now >= at {
		k.ask(now, codec.Unreliable)
	}
}

// ask requests a ping.
func (k *keepalive) ask(now time.Duration, mode codec.Mode) {
	k.pingedAt = now
	k.pingDue, k.pingMode = true, mode
}

// fillControl queues the due pings and pongs. Both wait for Transmit, so there is at most one of each.
func (c *Conn) fillControl(now time.Duration) {
	k := &c.keepalive
	if k.pong && now >= k.pongAt {
		k.pong = false
		m := connectedPong{pingTime: k.pongTime, pongTime: cmp.Or(k.pongClock, c.milliseconds(now))}
		var b [connectedPongSize]byte
		c.sender.enqueueControl(now, codec.Unreliable, m.append(b[:0]), 0)
	}
	if at, ok := k.activePingAt(); ok && now >= at && c.phase == connected && c.sender.hasWork(true) {
		k.ask(now, codec.Unreliable)
	}
	if c.wantsProbe(now) {
		k.ask(now, codec.Unreliable)
	}
	if g := &c.goodbye; g.pings > 0 && !k.pingDue {
		g.pings--
		k.ask(now, codec.Reliable)
	}
	if k.pingDue {
		k.pingDue = false
		m := connectedPing{time: c.milliseconds(now)}
		if !k.ponged && k.unanswered < mostUnanswered {
			k.unanswered++
		}
		k.sentAt, k.sentTime, k.ponged = now, m.time, false
		var b [connectedPingSize]byte
		c.sender.enqueueControl(now, k.pingMode, m.append(b[:0]), 0)
	}
}

// wantsProbe reports whether a ping should look for a queue on the path to a peer that is lagging, or may be. While the
// window limits the traffic, there is one ping a round. It leaves at once, because its time would else include the wait
// for the window.
func (c *Conn) wantsProbe(now time.Duration) bool {
	s := &c.sender
	return (s.congestion.queue.lagging || s.congestion.queue.late) && s.congestion.limiting && c.phase == connected &&
		now >= c.keepalive.pingedAt+max(leastPing, s.rtt.smoothed) && s.congestion.hasRoom() && s.hasWork(true)
}

// receivePing notes when to answer a ping. The peer shows its game the time that the pong takes. So that is the time to
// the far peer and back. A waiting pong answers its own ping, and later ones must not put it off. Our own time is that
// of the middle, from which the peer computes the difference of the clocks.
func (c *Conn) receivePing(now time.Duration, m *connectedPing) {
	k := &c.keepalive
	if k.pong && k.far > 0 || c.isMute() {
		return
	}
	k.pong, k.pongTime, k.pongAt = true, m.time, now+k.far
	k.pongClock = c.milliseconds(now + k.far/2)
}

var _ codec.Relayer = (*Conn)(nil)

// FarRTT implements codec.Relayer. The answers to the peer's pings tell it.
func (c *Conn) FarRTT(d time.Duration) (changed bool) {
	if d < leastFar {
		d = 0 // not worth a wake-up
	}
	c.keepalive.far = min(d, mostFar)
	return false // a pong that waits already keeps its time
}

// ServerRTT implements codec.Relayer. A RakNet server answers pings outside the ticks of its game.
func (c *Conn) ServerRTT() time.Duration { return c.roundTrip() }

// receivePong takes the answer to our last ping as a sample of the round trip.
func (k *keepalive) receivePong(now time.Duration, m *connectedPong) (rtt time.Duration, ok bool) {
	if k.ponged || m.pingTime != k.sentTime {
		return 0, false
	}
	k.ponged, k.unanswered = true, 0
	k.rtt.sample(now - k.sentAt)
	return now - k.sentAt, true
}

// releaseIfIdle frees memory if the game has been silent for a while, or has ended, and nothing is under way.
func (c *Conn) releaseIfIdle(now time.Duration) {
	switch {
	case c.phase == closed:
	case c.phase != connected || !c.goodbye.heard && now < c.keepalive.activeAt+c.p.o.Timeout/2:
		return
	}
	if c.events.Len() == 0 && c.receiver.isIdle() && c.sender.isIdle() {
		c.recycle()
		c.receiver.release()
		c.leave()
	}
}
