package raknet

import (
	"time"

	"tidegate/codec"
)

const (
	// activePing is how often the round trip is measured while the game talks: by a ping that goes with what else there is to
	// say, or after pingPatience more by itself.
	activePing   = time.Second
	pingPatience = activePing / 2
	// untimedPing is that for peers that send nothing again of their own accord: a pong shows what was lost before it.
	untimedPing = 250 * time.Millisecond
	// mostUnanswered is how many pings are repeated sooner because there was no pong.
	mostUnanswered = 5
)

// keepalive notices a dead peer, keeps a live one from taking us for dead, and answers its pings
// (docs/protocols/raknet.md#recovery-and-congestion).
type keepalive struct {
	heardAt    time.Duration // any datagram
	activeAt   time.Duration // a message of the game, either way
	pingedAt   time.Duration
	pingDue    bool
	pingMode   codec.Mode // of the ping that is due
	pong       bool       // the peer's last ping wants its pong; those before it are not answered, however many came
	ponged     bool       // our last ping was answered
	untimed    bool       // quirks.untimed
	unanswered uint8      // pings in a row that were not answered
	pongTime   uint64     // to be answered
	sentTime   uint64     // of our last ping, as it says
	sentAt     time.Duration
	rtt        rtt // of pings, which the peer answers sooner than it acknowledges
}

// start begins with a connection. Its first ping goes with the game's first words, but shows at once what an untimed peer has
// lost.
func (k *keepalive) start(now time.Duration) {
	k.heardAt, k.pingedAt = now, now-activePing
	if k.untimed {
		k.ask(now, codec.Unreliable)
	}
	if k.activeAt == 0 {
		k.activeAt = k.pingedAt
	}
}

// next is when stepKeepalive has something to do.
func (k *keepalive) next(s *sender, timeout time.Duration) time.Duration {
	next := k.heardAt + timeout
	if at, ok := k.reliablePingAt(s, timeout); ok {
		next = min(next, at)
	}
	if at, ok := k.ownPingAt(); ok {
		next = min(next, at)
	}
	return next
}

// reliablePingAt is when silence should be broken: a live peer must acknowledge that ping. While something reliable is
// on its way, that serves.
func (k *keepalive) reliablePingAt(s *sender, timeout time.Duration) (time.Duration, bool) {
	return max(s.reliableAt, k.pingedAt) + timeout/2, s.settled()
}

// activePingAt is when the round trip may be measured again, or a ping repeated that shows losses.
func (k *keepalive) activePingAt() (time.Duration, bool) {
	if k.untimed {
		patience := max(untimedPing, k.rtt.timeout()) << min(k.unanswered, 3)
		return k.pingedAt + patience, k.activeAt > k.pingedAt || !k.ponged && k.unanswered < mostUnanswered
	}
	return k.pingedAt + activePing, k.activeAt > k.pingedAt
}

// ownPingAt is when that ping goes by itself.
func (k *keepalive) ownPingAt() (time.Duration, bool) {
	at, ok := k.activePingAt()
	if !k.untimed {
		at += pingPatience
	}
	return at, ok
}

// stepKeepalive pings, or gives a silent peer up.
func (c *Conn) stepKeepalive(now time.Duration) {
	k := &c.keepalive
	if now >= k.heardAt+c.p.o.Timeout {
		c.finish(codec.TimedOut)
		return
	}
	if at, ok := k.reliablePingAt(&c.sender, c.p.o.Timeout); ok && now >= at {
		k.ask(now, codec.Reliable)
	}
	if at, ok := k.ownPingAt(); ok && now >= at {
		k.ask(now, codec.Unreliable)
	}
}

// ask has a ping sent.
func (k *keepalive) ask(now time.Duration, mode codec.Mode) {
	k.pingedAt = now
	k.pingDue, k.pingMode = true, mode
}

// fillControl queues the pings and pongs that are due. Both wait for Transmit, so there is one of each at most.
func (c *Conn) fillControl(now time.Duration) {
	k := &c.keepalive
	if k.pong {
		k.pong = false
		m := connectedPong{pingTime: k.pongTime, pongTime: c.milliseconds(now)}
		var b [connectedPongSize]byte
		c.sender.enqueueControl(now, codec.Unreliable, m.append(b[:0]), 0)
	}
	if at, ok := k.activePingAt(); ok && now >= at && c.phase == connected && c.sender.hasWork(true) {
		k.ask(now, codec.Unreliable)
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

// receivePong takes the answer to our last ping as a measure of the round trip.
func (k *keepalive) receivePong(now time.Duration, m *connectedPong) (rtt time.Duration, ok bool) {
	if k.ponged || m.pingTime != k.sentTime {
		return 0, false
	}
	k.ponged, k.unanswered = true, 0
	k.rtt.sample(now - k.sentAt)
	return now - k.sentAt, true
}

// releaseIfIdle gives memory back once the game has been silent for a while, or has ended, and nothing is under way.
func (c *Conn) releaseIfIdle(now time.Duration) {
	switch {
	case c.phase == closed:
	case c.phase != connected || now < c.keepalive.activeAt+c.p.o.Timeout/2:
		return
	}
	if c.events.Len() == 0 && c.receiver.isIdle() && c.sender.isIdle() {
		c.recycle()
		c.receiver.release()
		c.leave()
	}
}
