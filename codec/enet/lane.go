package enet

import "time"

// Bounds of unreliable numbers that were not confirmed yet.
const (
	reach      = 256         // how far a number may be ahead of the last one without another one behind it
	laneLength = 32          // messages on an earlier lane until it counts again
	laneTime   = time.Second // the same as a time: no datagram is late for so long
)

// lane is the place of the last unreliable message before a jump of the channel's numbers. The jump may be forged, and
// the peer goes on here. The jump counts at once, so messages of the lane are late. They are delivered when there are
// too many of them, or when they come too late, for a path that changes their order.
type lane struct {
	isOpen           bool
	reliable, number uint16
	since            time.Duration
	behind           int
}

// begin opens the lane before a jump, unless one of an earlier jump is open.
func (l *lane) begin(now time.Duration, reliable, number uint16) {
	if !l.isOpen {
		*l = lane{isOpen: true, reliable: reliable, number: number, since: now}
	}
}

// has reports whether a message may go on with the lane.
func (l *lane) has(reliable, number uint16) bool {
	return l.isOpen && reliable == l.reliable && number > l.number && number-l.number <= reach
}

// take records a message, and reports whether it is to be delivered.
func (l *lane) take(now time.Duration, reliable, number uint16) bool {
	if !l.has(reliable, number) {
		return false
	}
	l.number = number
	l.behind++
	return l.behind >= laneLength || now-l.since >= laneTime
}

// accept moves a channel to an unreliable number behind the last reliable one.
func (in *inbox) accept(c *inChannel, number uint16) {
	gap := number - c.unreliable
	switch l := &c.lane; {
	case !in.guesses:
	case l.has(c.reliable, number) || gap <= laneLength: // the peer has passed the jump, or was behind it
		l.isOpen = false
	}
	if in.guesses && gap > 1 {
		c.lane.isOpen = c.lane.isOpen && c.lane.reliable == c.reliable
		c.lane.begin(in.now, c.reliable, c.unreliable)
	}
	c.unreliable = number
}

// isFar reports whether a number is too far ahead to count. It counts when another one follows it.
func (in *inbox) isFar(c *inChannel, number uint16) bool {
	if !in.guesses || number-c.unreliable <= reach {
		return false
	}
	isNext := number > c.far && number-c.far <= reach && c.far > c.unreliable
	c.far = number
	return !isNext
}
