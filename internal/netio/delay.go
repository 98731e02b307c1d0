package netio

import "time"

// busyTurn is how many datagrams make a turn so full that waiting for more would gain little.
const busyTurn = 64

// batchDelay says how long to hold back the turn after one with few datagrams, so that it has more of them. A turn without
// any does not delay: the first datagram after a silence is served at once.
type batchDelay struct {
	max     time.Duration
	handled int // datagrams since the last turn
}

// next is how long to sleep before the next turn, never beyond its deadline, zero being none. It may be negative.
func (d *batchDelay) next(deadline time.Time) time.Duration {
	few := d.handled > 0 && d.handled < busyTurn
	d.handled = 0
	switch {
	case d.max <= 0 || !few:
		return 0
	case deadline.IsZero():
		return d.max
	}
	return min(d.max, time.Until(deadline))
}
