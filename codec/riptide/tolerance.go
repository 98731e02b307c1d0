package riptide

import (
	"time"

	"tidegate/codec"
)

var _ codec.LossTolerant = (*Conn)(nil)

// TolerateLoss implements codec.LossTolerant: until t a message is sent as patiently as the ends of 2.0 send it, and
// nothing is measured.
func (c *Conn) TolerateLoss(until time.Time) {
	c.excused = until
	c.sends, c.notifier.loss = sendQuality{}, lossQuality{}
}

// isPatient reports whether a message that was sent at a time has slowSends after maxSends.
func (c *Conn) isPatient(sentAt time.Time) bool { return c.options.patient || sentAt.Before(c.excused) }
