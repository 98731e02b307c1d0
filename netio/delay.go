package netio

import "time"

// busyTurn is how many datagrams make a turn so full that waiting for more would gain little.
const busyTurn = 64

// batchDelay holds back the turn after one with few datagrams, so that it has more of them. A turn without any does not
// delay: the first datagram after a silence is served at once.
type batchDelay struct {
	max     time.Duration
	handled int // datagrams since the last pause
}

// pause sleeps if the last turn was such a one, and never beyond the deadline, zero being none.
func (d *batchDelay) pause(deadline time.Time) {
	if pause := d.take(); pause > 0 {
		if !deadline.IsZero() {
			pause = min(pause, time.Until(deadline))
		}
		sleep(pause)
	}
}

// take returns how long to sleep for the datagrams handled, and forgets them.
func (d *batchDelay) take() time.Duration {
	few := d.handled > 0 && d.handled < busyTurn
	d.handled = 0
	if !few {
		return 0
	}
	return d.max
}
