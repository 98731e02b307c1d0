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
	case probing, waiting, deferred, closed: // there is no connection yet, or no more
		if c.asking != nil && datagram[0]&bitValid != 0 {
			c.hearsOnline(at)
		}
		c.receiver.dropped++
		return errPhase
	}
	err := c.receiveOnline(at, datagram)
	c.report()
	c.stepParting(at)
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

// receiveOffline takes a message that stands outside of the reliability layer.
func (c *Conn) receiveOffline(now time.Time, id byte, b []byte) error {
	var err error
	switch {
	case c.asking != nil:
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
