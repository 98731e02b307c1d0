package raknet

import (
	"fmt"
	"time"

	"tidegate/codec"
)

var (
	errPhase = fmt.Errorf("raknet: %w", codec.ErrUnexpected)
	errTiny  = fmt.Errorf("raknet: datagram of at most 2 bytes: %w", codec.ErrMalformed)
)

// Receive takes one datagram from the peer's address.
func (c *Conn) Receive(now time.Time, datagram []byte) error {
	c.occupy()
	c.recycle()
	err := c.receive(now, datagram)
	c.releaseIfIdle(now.Sub(c.start))
	return err
}

func (c *Conn) receive(now time.Time, datagram []byte) error {
	at := now.Sub(c.start)
	if isBareGoodbye(datagram) && c.phase == connected {
		c.received++
		c.hearGoodbye(at)
		return nil
	}
	if len(datagram) <= 2 {
		c.receiver.Dropped++
		return errTiny
	}
	if id, ok := offlineID(datagram); ok {
		return c.receiveOffline(now, id, datagram)
	}
	switch c.phase {
	case probing, waiting, deferred, closed: // there is no connection yet, or no longer
		if c.attempt != nil && datagram[0]&bitValid != 0 {
			c.hearsOnline(at)
		}
		c.receiver.Dropped++
		return errPhase
	}
	err := c.receiveOnline(at, datagram)
	c.report()
	c.stepShutdown(at)
	return err
}

func (c *Conn) receiveOnline(now time.Duration, b []byte) error {
	var d datagram
	if err := d.parse(b); err != nil {
		c.receiver.Dropped++
		return err
	}
	c.received++
	switch d.kind {
	case ackDatagram:
		return c.hear(now, c.sender.acknowledge(now, d.body))
	case nackDatagram:
		return c.hear(now, c.sender.reject(now, d.body))
	}
	if c.pressure == codec.Refuse {
		c.receiver.Dropped++
		if judged := c.receiver.datagrams.judge(d.number); judged != refused {
			c.keepalive.HeardAt = now
			if judged == fresh && c.quirks.untimed {
				c.receiver.postpone(now, d.number)
			}
		}
		return errPressure
	}
	c.receiver.Patience, c.receiver.reliable.hasty = c.patience(), c.isHasty()
	err := c.receiver.take(now, &d)
	if err != errDatagramWindow && err != errDatagramSeen {
		c.keepalive.HeardAt = now
		c.quirks.rated = c.quirks.rated || d.rated
	}
	if handleErr := c.handleReady(now); err == nil {
		err = handleErr
	}
	if err == errSplitTooLarge && c.isStuck(now) {
		reason := codec.Violation
		if c.dialed { // a server's message is honest
			reason = codec.Overflow
		}
		c.expel(reason)
	}
	return err
}

// handleReady handles the messages whose turn has come. It returns the first error.
func (c *Conn) handleReady(now time.Duration) (err error) {
	for i := range c.memory.ready {
		if handleErr := c.handle(now, &c.memory.ready[i]); err == nil {
			err = handleErr
		}
	}
	if c.memory.ready = c.memory.ready[:0]; cap(c.memory.ready) > keptMessages {
		c.memory.ready = nil
	}
	return err
}

// unfinishedPatience is how long an unfinished message may wait for its next part, and a message for the one before it,
// beside twice the timeout. A live peer repeats a missing part all the time, and gives up the connection much earlier.
const unfinishedPatience = time.Minute

// expireUnfinished gives up what the peer no longer completes. The connection goes on, since the cause may be a forged
// part.
func (c *Conn) expireUnfinished(now time.Duration) {
	if c.receiver.held() > 0 {
		c.receiver.expire(now - max(unfinishedPatience, 2*c.p.o.Timeout))
		_ = c.handleReady(now) // an error is counted
	}
}

// held returns the memory in bytes that is kept for the peer.
func (c *Conn) held() int {
	held := c.receiver.held() + c.early.held()
	if c.asking != nil && c.phase <= requesting {
		held += len(c.asking.Password)
	}
	return held
}

// hear takes a datagram about our own as a sign of life if it names one that was sent lately. Else it is late, or
// forged.
func (c *Conn) hear(now time.Duration, err error) error {
	if c.sender.named {
		c.keepalive.HeardAt = now
		c.doubtGoodbye(now, c.sender.AckedSent)
	}
	if err != nil || !c.sender.named {
		c.receiver.Dropped++
	}
	return err
}

// A server that repeats the part which is due, for giantPatience and giantSightings times, waits for its message.
const (
	giantPatience  = time.Second
	giantSightings = 3
)

// isStuck reports whether the peer waits for a message that is too large. Any part of one may be forged. A genuine one
// keeps the oldest missing number for a long time, and a server's soon shows that the part is that number's. During the
// handshake there is no such time.
func (c *Conn) isStuck(now time.Duration) bool {
	r := &c.receiver
	if c.phase != connected {
		return true
	}
	if r.giant.GiantBase != r.reliable.base || !r.giant.GiantSeen {
		r.giant = giant{GiantBase: r.reliable.base, GiantSince: now, GiantSeen: true}
	}
	patience := c.p.o.Timeout
	if c.dialed && r.giant.GiantSightings == giantSightings {
		patience = min(patience, giantPatience+2*c.roundTrip())
	}
	return now-r.giant.GiantSince >= patience
}

// giant is a message that is too large: the oldest reliable number that was missing when one of its parts came, since
// when it is missing, and how often the part of that number came.
type giant struct {
	GiantBase      Seq24         `cbor:"14,keyasint,omitempty"`
	GiantSince     time.Duration `cbor:"15,keyasint,omitempty"`
	GiantSeen      bool          `cbor:"16,keyasint,omitempty"`
	GiantSightings uint8         `cbor:"28,keyasint,omitempty"`
}

// receiveOffline handles an offline message, which is outside of the reliability layer.
func (c *Conn) receiveOffline(now time.Time, id byte, b []byte) error {
	var err error
	switch {
	case c.attempt != nil:
		err = c.receiveReply(now.Sub(c.start), id, b)
	case isForServers(id) && !c.dialed && c.phase != closed:
		err = c.answerOffline(now, id, b)
	default:
		err = errPhase
	}
	if err != nil {
		c.receiver.Dropped++
		return err
	}
	c.received++
	return nil
}

var errPressure = fmt.Errorf("raknet: other side of the proxy is full: %w", codec.ErrFull)

var _ codec.Throttler = (*Conn)(nil)

// Throttle implements codec.Throttler. A stock peer has at most 512 unacknowledged datagrams, and then waits. Its
// timeout sends them again, which costs little. Refused datagrams are not acknowledged, and requested only from a peer
// without timers, when there is room. A peer without a window, such as go-raknet, sends them again by its own timer.
func (c *Conn) Throttle(now time.Time, p codec.Pressure) {
	if c.phase != connected {
		p = codec.NoPressure
	}
	if c.pressure != p {
		c.pressure = p
		c.occupy()
		c.receiver.AcksAt = min(c.receiver.AcksAt, now.Sub(c.start)) // delayed acknowledgements are due
	}
}

// Fill implements codec.Throttler.
func (c *Conn) Fill() float64 {
	return float64(c.sender.bytes+queueOverhead*c.sender.count) / float64(c.p.o.MaxQueued)
}

// Waiting implements codec.Throttler.
func (c *Conn) Waiting() int { return c.receiver.channels.held() }

var _ codec.Holder = (*Conn)(nil)

// Release implements codec.Holder. Datagrams with parts or early messages are refused from now on.
func (c *Conn) Release() {
	c.receiver.splits.clear()
	c.receiver.splits.budget = 0
	c.receiver.channels.clear()
	c.receiver.heldBudget = -1
	c.early = earlyMessages{}
}
