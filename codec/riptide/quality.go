package riptide

import "math/bits"

// The library's measures of a connection that is too poor to go on. docs/protocols/riptide.md#quality
const (
	qualitySpan  = 64 // how many of the latest results a measure is taken of
	qualityRuns  = 64 // how many bad measures in a row end the connection
	maxMeanSends = 5
	maxLost      = 3 // up to 5 %
)

// sendQuality measures how often the latest delivered reliable messages had to be sent.
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

// lossQuality measures how many of the latest notify messages were lost.
type lossQuality struct {
	lost uint64 // one bit each of the latest
	bad  int
}

// result records a notify message's fate and reports whether the connection is too poor.
func (q *lossQuality) result(delivered bool) bool {
	q.lost <<= 1
	if !delivered {
		q.lost |= 1
	}
	if bits.OnesCount64(q.lost) <= maxLost {
		q.bad = 0
		return false
	}
	q.bad++
	return q.bad >= qualityRuns
}
