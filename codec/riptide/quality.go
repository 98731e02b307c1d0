package riptide

import (
	"time"

	"tidegate/codec"
)

// Limits of the library's measures of a connection that is too poor to continue. docs/protocols/riptide.md#quality
const (
	qualitySpan  = 64 // number of latest results in a measure
	qualityRuns  = 64 // number of bad measures in a row that end the connection
	maxMeanSends = 5
)

// sendQuality measures how many transmissions the latest delivered reliable messages needed.
type sendQuality struct {
	sends [qualitySpan]uint8
	count int
	at    int
	sum   int
	bad   int
}

// delivered records a message's transmissions and reports whether the connection is too poor.
func (q *sendQuality) delivered(sends uint8) bool {
	q.sum += int(sends) - int(q.sends[q.at])
	q.sends[q.at] = sends
	q.at = (q.at + 1) % qualitySpan
	q.count = min(q.count+1, qualitySpan)
	if q.sum <= maxMeanSends*q.count {
		q.bad = 0
		return false
	}
	q.bad++
	return q.bad >= qualityRuns
}

var _ codec.LossTolerant = (*Conn)(nil)

// TolerateLoss implements codec.LossTolerant. Until t, messages are sent as patiently as in 2.0, and quality is not
// measured.
func (c *Conn) TolerateLoss(until time.Time) {
	c.tolerantUntil = until
	c.sends = sendQuality{}
}

// isPatient reports whether a message sent at sentAt has slowSends after maxSends.
func (c *Conn) isPatient(sentAt time.Time) bool {
	return c.options.patient || sentAt.Before(c.tolerantUntil)
}
