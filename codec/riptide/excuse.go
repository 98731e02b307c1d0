package riptide

import "time"

// Excuse implements codec.Excuser: until then we are as patient with a message as the ends of 2.0 are, and nothing is measured.
func (c *Conn) Excuse(until time.Time) {
	c.excused = until
	c.sends, c.notifier.loss = sendQuality{}, lossQuality{}
}

// isPatient reports whether a message that was sent at a time has slowSends after maxSends.
func (c *Conn) isPatient(sentAt time.Time) bool { return c.options.patient || sentAt.Before(c.excused) }
