package raknet

import (
	"cmp"
	"encoding/binary"
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
	HeardAt    time.Duration `cbor:"1,keyasint,omitempty"` // any datagram
	ActiveAt   time.Duration `cbor:"2,keyasint,omitempty"` // a message of the game, in either direction
	PingedAt   time.Duration `cbor:"3,keyasint,omitempty"`
	PingDue    bool          `cbor:"4,keyasint,omitempty"`
	PingMode   codec.Mode    `cbor:"5,keyasint,omitempty"`  // mode of the due ping
	Pong       bool          `cbor:"6,keyasint,omitempty"`  // a ping of the peer wants its pong, at PongAt
	Ponged     bool          `cbor:"7,keyasint,omitempty"`  // our last ping got its answer
	Untimed    bool          `cbor:"8,keyasint,omitempty"`  // quirks.untimed
	Unanswered uint8         `cbor:"9,keyasint,omitempty"`  // unanswered pings in a row
	PongTime   uint64        `cbor:"10,keyasint,omitempty"` // time of that ping
	SentTime   uint64        `cbor:"11,keyasint,omitempty"` // time in our last ping
	SentAt     time.Duration `cbor:"12,keyasint,omitempty"`
	RTT        rtt           `cbor:"13,keyasint,omitempty"` // of pings, which the peer answers sooner than it acknowledges
	// PongClock is our own time for the pong; 0: an older release has saved the ping.
	PongClock uint64        `cbor:"14,keyasint,omitempty"`
	PongAt    time.Duration `cbor:"15,keyasint,omitempty"`
	Far       time.Duration `cbor:"16,keyasint,omitempty"` // round trip to the far peer, which the pong waits for
	AskedAt   time.Duration `cbor:"17,keyasint,omitempty"` // when the first reliable data left after HeardAt
	Reflected bool          `cbor:"18,keyasint,omitempty"` // as Reflect has said: a silent peer must be noticed soon
	Ordered   bool          `cbor:"19,keyasint,omitempty"` // the server has accepted us as go-raknet does
}

// start begins with a connection. The first ping travels with the game's first messages, and for an untimed peer it
// shows losses at once.
func (k *keepalive) start(now time.Duration) {
	k.HeardAt, k.PingedAt = now, now-activePing
	if k.Untimed {
		k.ask(now, codec.Unreliable)
	}
	k.ActiveAt = cmp.Or(k.ActiveAt, k.PingedAt)
}

// next returns when stepKeepalive has work.
func (k *keepalive) next(s *sender, timeout time.Duration) time.Duration {
	next := k.HeardAt + timeout
	if at, ok := k.reliablePingAt(s, timeout); ok {
		next = min(next, at)
	}
	if at, ok := k.ownPingAt(); ok {
		next = min(next, at)
	}
	if k.Pong {
		next = min(next, k.PongAt)
	}
	return next
}

// reliablePingAt returns when to break the silence with a ping that a live peer must acknowledge. While other reliable
// data is under way, that serves the same purpose.
func (k *keepalive) reliablePingAt(s *sender, timeout time.Duration) (time.Duration, bool) {
	if k.Reflected {
		timeout /= 2
	}
	return max(s.ReliableAt, k.PingedAt) + timeout/2, s.settled()
}

// asked notes a datagram that has left.
func (k *keepalive) asked(now time.Duration, s *sender) {
	if k.AskedAt <= k.HeardAt && !s.settled() {
		k.AskedAt = now
	}
}

// activePingAt returns when to measure the round trip again, or to repeat a ping that shows losses.
func (k *keepalive) activePingAt() (time.Duration, bool) {
	if k.Untimed {
		patience := max(untimedPing, k.RTT.timeout()) << min(k.Unanswered, 3)
		return k.PingedAt + patience, k.ActiveAt > k.PingedAt || !k.Ponged && k.Unanswered < mostUnanswered
	}
	return k.PingedAt + activePing, k.ActiveAt > k.PingedAt
}

// ownPingAt returns when that ping travels by itself.
func (k *keepalive) ownPingAt() (time.Duration, bool) {
	at, ok := k.activePingAt()
	if !k.Untimed {
		at += pingPatience
	}
	return at, ok
}

// stepKeepalive sends a ping, or gives up a silent peer.
func (c *Conn) stepKeepalive(now time.Duration) {
	k := &c.keepalive
	if now >= k.HeardAt+c.p.o.Timeout {
		reason := codec.TimedOut
		if c.goodbye.Heard { // so it has left
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
	k.PingedAt = now
	k.PingDue, k.PingMode = true, mode
}

// fillControl queues the due pings and pongs. Both wait for Transmit, so there is at most one of each.
func (c *Conn) fillControl(now time.Duration) {
	k := &c.keepalive
	if k.Pong && now >= k.PongAt {
		k.Pong = false
		m := connectedPong{pingTime: k.PongTime, pongTime: cmp.Or(k.PongClock, c.milliseconds(now))}
		var b [connectedPongSize]byte
		c.sender.enqueueControl(now, codec.Unreliable, m.append(b[:0]), 0)
	}
	if at, ok := k.activePingAt(); ok && now >= at && c.phase == connected && c.sender.hasWork(true) {
		k.ask(now, codec.Unreliable)
	}
	if c.wantsProbe(now) {
		k.ask(now, codec.Unreliable)
	}
	if g := &c.goodbye; g.Pings > 0 && !k.PingDue {
		g.Pings--
		k.ask(now, codec.Reliable)
	}
	if k.PingDue {
		k.PingDue = false
		m := connectedPing{time: c.milliseconds(now)}
		if !k.Ponged && k.Unanswered < mostUnanswered {
			k.Unanswered++
		}
		k.SentAt, k.SentTime, k.Ponged = now, m.time, false
		var b [connectedPingSize]byte
		c.sender.enqueueControl(now, k.PingMode, m.append(b[:0]), 0)
	}
}

// wantsProbe reports whether a ping should look for a queue: one seems to stand, or the peer is lagging, or may be.
// While the window limits the traffic, there is one a round. It leaves at once, not to measure the wait for the window.
func (c *Conn) wantsProbe(now time.Duration) bool {
	s := &c.sender
	q := &s.Congestion.queue
	return (q.Lagging || q.Late || q.Standing) && s.Congestion.Limiting && c.phase == connected &&
		now >= c.keepalive.PingedAt+max(leastPing, s.RTT.Smoothed) && s.Congestion.hasRoom() && s.hasWork(true)
}

// receivePing notes when to answer a ping. The peer shows its game the time that the pong takes. So that is the time to
// the far peer and back. A waiting pong answers its own ping, and later ones must not put it off. Our own time is that
// of the middle, from which the peer computes the difference of the clocks.
func (c *Conn) receivePing(now time.Duration, m *connectedPing) {
	k := &c.keepalive
	if k.Pong && k.Far > 0 || c.isMute() {
		return
	}
	k.Pong, k.PongTime, k.PongAt = true, m.time, now+k.Far
	k.PongClock = c.milliseconds(now + k.Far/2)
}

var _ codec.Relayer = (*Conn)(nil)

// FarRTT implements codec.Relayer. The answers to the peer's pings tell it.
func (c *Conn) FarRTT(d time.Duration) (changed bool) {
	if d < leastFar {
		d = 0 // not worth a wake-up
	}
	c.keepalive.Far = min(d, mostFar)
	return false // a pong that waits already keeps its time
}

// ServerRTT implements codec.Relayer. A RakNet server answers pings outside the ticks of its game.
func (c *Conn) ServerRTT() time.Duration { return c.roundTrip() }

// receivePong takes the answer to our last ping as a sample of the round trip.
func (k *keepalive) receivePong(now time.Duration, m *connectedPong) (rtt time.Duration, ok bool) {
	if k.Ponged || m.pingTime != k.SentTime {
		return 0, false
	}
	k.Ponged, k.Unanswered = true, 0
	k.RTT.sample(now - k.SentAt)
	return now - k.SentAt, true
}

// releaseIfIdle frees memory if the game has been silent for a while, or has ended, and nothing is under way.
func (c *Conn) releaseIfIdle(now time.Duration) {
	switch {
	case c.phase == closed:
	case c.phase != connected || !c.goodbye.Heard && now < c.keepalive.ActiveAt+c.p.o.Timeout/2:
		return
	}
	if c.events.Len() == 0 && c.receiver.isIdle() && c.sender.isIdle() {
		c.recycle()
		c.receiver.release()
		c.leave()
	}
}

// quirks are faults of the peer's library that show in its messages. We compensate for them
// (docs/protocols/raknet/recovery.md#peers-without-timers).
type quirks struct {
	// untimed peers send again only on request, or late. They send messages of the handshake unreliably (jsp-raknet,
	// RakLib after 8 s) or answer pings reliably (serenityjs), so that a gap shows losses.
	untimed bool `cbor:"26,keyasint,omitempty"`
	// rated peers have sent the bit of a slow start, which jsp-raknet never does. Cloudburst has timers, though its answer
	// to a connection request is unreliable. It counts until the handshake is over.
	rated bool
}

// tellsUnixTime reports whether the peer's time in a request, or its acceptance, is in milliseconds since 1970.
func tellsUnixTime(b []byte) bool {
	at := len(b) - 8
	if b[0] == idConnectionRequest {
		at = 9
	}
	if len(b) < 17 {
		return false
	}
	t := time.UnixMilli(int64(binary.BigEndian.Uint64(b[at:])))
	return t.After(time.UnixMilli(1<<39)) && t.Before(time.UnixMilli(1<<42)) // 1987 to 2109
}

// notice learns from one of RakNet's own messages. jsp-raknet's clock shows the time since 1970, and jsp-raknet is
// literal. RakLib's clock does not, and RakLib drops a number that it has requested.
func (c *Conn) notice(m *inbound) {
	switch m.Payload[0] {
	case idConnectionRequest, idConnectionRequestAccepted:
		c.keepalive.Ordered = c.keepalive.Ordered ||
			c.phase < asked && m.Mode == codec.ReliableOrdered && tellsUnixTime(m.Payload)
		if m.Mode != codec.Unreliable || c.quirks.rated || c.phase >= asked { // a stranger may forge one later
			break
		}
		c.quirks.untimed = true
		if c.sender.Few = !tellsUnixTime(m.Payload); !c.sender.Few && !c.sender.flight.Literal {
			c.sender.flight.becomeLiteral()
		}
	case idConnectedPong:
		c.quirks.untimed = c.quirks.untimed || m.Mode.IsReliable()
	case idConnectedPing: // only go-raknet's are ordered, and a stranger may forge one
		c.sender.Forgetful = c.sender.Forgetful || c.keepalive.Ordered && m.Mode == codec.ReliableOrdered
	}
	c.keepalive.Untimed = c.quirks.untimed
}

// isHasty reports whether the peer is go-raknet, which sends a whole world at once. If all of it came behind one gap,
// the other side of the proxy would be full for seconds, and go-raknet triples its wait with each message refused.
func (c *Conn) isHasty() bool { return c.sender.Forgetful || c.dialed && c.keepalive.Ordered }

// patience returns how long the answer to a request to send again may take.
func (c *Conn) patience() time.Duration { return c.sender.RTT.Smoothed + c.sender.RTT.timeout() }

// expectAnswer requests the next step of the handshake if it does not arrive.
func (c *Conn) expectAnswer(now time.Duration) {
	c.receiver.Patience = c.patience()
	c.receiver.expect(now)
}

// askAgain requests missing datagrams once more if that is due. Until the handshake is over, one is always missing.
func (c *Conn) askAgain(now time.Duration) {
	if c.pressure != codec.Refuse {
		c.receiver.askAgain(now, c.patience(), c.phase < accepted || c.quirks.untimed)
	}
}

// C++ games tell a lost connection from a goodbye: many come back by themselves after the one, and show their menu
// after the other. The library finds a loss by silence alone. So a C++ player is shown its server's silence, and a
// server that is lost gets no goodbye for it (docs/protocols/raknet/recovery.md#peers-without-timers).

var _ codec.Reflector = (*Conn)(nil)

// leastSilence is how long a server may owe an answer, beside two round trips.
const leastSilence = time.Second

// IsSilent implements codec.Reflector. A player's silence is not shown: its server would keep its GUID for longer.
func (c *Conn) IsSilent(now time.Time) bool {
	k := &c.keepalive
	return c.dialed && c.phase == connected && k.AskedAt > k.HeardAt && !c.sender.settled() &&
		now.Sub(c.start)-k.AskedAt >= leastSilence+2*c.roundTrip()
}

// Reflects implements codec.Reflector. Only C++ RakNet has version 6.
func (c *Conn) Reflects() bool { return !c.dialed && !c.longList }

// Reflect implements codec.Reflector.
func (c *Conn) Reflect(isSilent, isReflected bool) (released bool) {
	released = c.mute && !isSilent
	c.mute, c.keepalive.Reflected = isSilent, isReflected
	if c.isMute() {
		c.keepalive.Pong = false
	}
	return released
}

// isMute reports whether the peer gets nothing until its server is heard again.
func (c *Conn) isMute() bool { return c.mute && c.phase == connected && !c.goodbye.Heard }

// clockSamples is the number of newest round trips from which the best is chosen, as in stock RakNet.
const clockSamples = 5

// peerClock knows how far the peer's clock is ahead of ours. A message that begins with ID_TIMESTAMP carries a time of
// its sender's clock. The receiver converts it to its own clock (docs/protocols/raknet.md#timestamps).
type peerClock struct {
	samples [clockSamples]clockSample // the oldest is overwritten first
	next    uint8                     `cbor:"2,keyasint,omitempty"`
	best    uint8                     `cbor:"3,keyasint,omitempty"`
}

// clockSample is the result of one round trip. A used one has a RoundTrip above 0.
type clockSample struct {
	_         struct{} `cbor:",toarray"`
	RoundTrip time.Duration
	Ahead     uint64 // of the peer's clock, in milliseconds; wraps if it is behind ours
}

// sample takes a round trip. It began at sent, in milliseconds of our clock. The peer answered at answered of its
// clock. Half of the round trip counts for each direction, so the shortest one is the most exact.
func (k *peerClock) sample(roundTrip time.Duration, sent, answered uint64) {
	half := uint64((roundTrip/2 + time.Millisecond/2) / time.Millisecond)
	k.samples[k.next] = clockSample{RoundTrip: max(roundTrip, 1), Ahead: answered - sent - half}
	k.best, k.next = k.next, (k.next+1)%clockSamples
	for i, s := range k.samples {
		if s.RoundTrip > 0 && s.RoundTrip < k.samples[k.best].RoundTrip {
			k.best = uint8(i)
		}
	}
}

// minTimestamped is the size of the identifier and the time. Stock RakNet adjusts the time even without a message.
const minTimestamped = 1 + 8

// adjust converts the time in a message that carries one, in place. Before the first sample it does nothing.
func (k *peerClock) adjust(payload []byte) {
	if len(payload) < minTimestamped || payload[0] != idTimestamp {
		return
	}
	theirs := binary.BigEndian.Uint64(payload[1:])
	binary.BigEndian.PutUint64(payload[1:], theirs-k.samples[k.best].Ahead)
}

// sampleClock takes the first round trip from the handshake: the peer sends its own time, and echoes one of ours.
func (c *Conn) sampleClock(now time.Duration, echoed, theirs uint64) {
	ours := c.milliseconds(now)
	if echoed < c.milliseconds(0) || echoed > ours {
		return // never sent
	}
	c.clock.sample(time.Duration(ours-echoed)*time.Millisecond, echoed, theirs)
}
