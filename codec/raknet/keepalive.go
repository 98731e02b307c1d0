package raknet

import (
	"time"

	"tidegate/codec"
)

// activePing is how often the round trip is measured while the game talks and nothing of ours was acknowledged.
const activePing = time.Second

// keepalive notices a dead peer, keeps a live one from taking us for dead, and answers its pings
// (docs/protocols/raknet.md#recovery-and-congestion).
type keepalive struct {
	heardAt  time.Duration // any datagram
	activeAt time.Duration // a message of the game, either way
	pingedAt time.Duration
	ping     bool // an unreliable ping is due
	pong     bool // the peer's last ping wants its pong; those before it are not answered, however many came
	pongTime uint64
}

func (k *keepalive) start(now time.Duration) {
	k.heardAt, k.activeAt, k.pingedAt = now, now, now
	k.ping = true
}

// next is when stepKeepalive has something to do.
func (k *keepalive) next(s *sender, timeout time.Duration) time.Duration {
	next := k.heardAt + timeout
	if at, ok := k.reliablePingAt(s, timeout); ok {
		next = min(next, at)
	}
	if at, ok := k.activePingAt(s); ok {
		next = min(next, at)
	}
	return next
}

// reliablePingAt is when silence should be broken: a live peer must acknowledge that ping. While something reliable is
// on its way, that serves.
func (k *keepalive) reliablePingAt(s *sender, timeout time.Duration) (time.Duration, bool) {
	return max(s.reliableAt, k.pingedAt) + timeout/2, s.settled()
}

// activePingAt is when the round trip should be measured again.
func (k *keepalive) activePingAt(s *sender) (time.Duration, bool) {
	last := max(k.pingedAt, s.sampledAt)
	return last + activePing, k.activeAt > last
}

// stepKeepalive pings, or gives a silent peer up.
func (c *Conn) stepKeepalive(now time.Duration) {
	k := &c.keepalive
	if now >= k.heardAt+c.p.o.Timeout {
		c.finish(codec.TimedOut)
		return
	}
	if at, ok := k.reliablePingAt(&c.sender, c.p.o.Timeout); ok && now >= at {
		k.pingedAt = now
		c.release()
		c.enqueuePing(now, codec.Reliable)
	}
	if at, ok := k.activePingAt(&c.sender); ok && now >= at {
		k.pingedAt = now
		k.ping = true
	}
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
	if k.ping {
		k.ping = false
		c.enqueuePing(now, codec.Unreliable)
	}
}

func (c *Conn) enqueuePing(now time.Duration, mode codec.Mode) {
	m := connectedPing{time: c.milliseconds(now)}
	var b [connectedPingSize]byte
	c.sender.enqueueControl(now, mode, m.append(b[:0]), 0)
}

// release gives memory back that an idle connection does not need.
func (c *Conn) release() {
	c.sender.release()
	c.receiver.release()
	c.memory.release()
	c.offline = nil
	if c.events.empty() {
		c.events, c.lent = events{}, nil
	}
}
