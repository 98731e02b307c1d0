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
	if len(datagram) <= 2 {
		c.receiver.dropped++
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
		c.receiver.dropped++
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
		c.receiver.dropped++
		return err
	}
	c.received++
	c.keepalive.heardAt = now
	switch d.kind {
	case ackDatagram:
		return c.sender.acknowledge(now, d.body)
	case nackDatagram:
		return c.sender.reject(now, d.body)
	}
	if c.pressure == codec.Refuse {
		c.receiver.dropped++
		return errPressure
	}
	c.receiver.patience = c.patience()
	err := c.receiver.take(now, &d)
	for i := range c.receiver.ready {
		if handleErr := c.handle(now, &c.receiver.ready[i]); err == nil {
			err = handleErr
		}
	}
	c.receiver.ready = c.receiver.ready[:0]
	if err == errSplitTooLarge {
		c.expel()
	}
	return err
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
		c.receiver.dropped++
		return err
	}
	c.received++
	return nil
}

var errPressure = fmt.Errorf("raknet: other side of the proxy is full: %w", codec.ErrFull)

var _ codec.Throttler = (*Conn)(nil)

// Throttle implements codec.Throttler. A stock peer has at most 512 unacknowledged datagrams, and then waits. Its
// timeout sends them again, which costs little. Refused datagrams are neither acknowledged nor requested. A peer
// without a window, such as go-raknet, sends them again by its own timer.
func (c *Conn) Throttle(now time.Time, p codec.Pressure) {
	if c.phase != connected {
		p = codec.NoPressure
	}
	if c.pressure != p {
		c.pressure = p
		c.occupy()
		c.receiver.acksAt = min(c.receiver.acksAt, now.Sub(c.start)) // delayed acknowledgements are due
	}
}

// Fill implements codec.Throttler.
func (c *Conn) Fill() float64 {
	return float64(c.sender.bytes+queueOverhead*c.sender.count) / float64(c.p.o.MaxQueued)
}
