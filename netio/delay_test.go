package netio

import (
	"testing"
	"time"
)

func TestBatchDelayTake(t *testing.T) {
	const most = time.Millisecond
	for _, c := range []struct {
		what    string
		max     time.Duration
		handled int
		want    time.Duration
	}{
		{"off", 0, 1, 0},
		{"nothing handled", most, 0, 0},
		{"few handled", most, 1, most},
		{"just not busy", most, busyTurn - 1, most},
		{"busy", most, busyTurn, 0},
	} {
		d := batchDelay{max: c.max, handled: c.handled}
		if got := d.take(); got != c.want {
			t.Errorf("%s: a pause of %s, want %s", c.what, got, c.want)
		}
		if got := d.take(); got != 0 {
			t.Errorf("%s: another pause of %s for the same turn", c.what, got)
		}
	}
}

// A deadline that is near, or past, cuts the pause.
func TestBatchDelayEndsAtDeadline(t *testing.T) {
	const most = time.Minute
	for _, wait := range []time.Duration{time.Millisecond, 0, -time.Hour} {
		d := batchDelay{max: most, handled: 1}
		start := time.Now()
		d.pause(start.Add(wait))
		if took := time.Since(start); took >= most {
			t.Errorf("paused %s with a deadline in %s", took, wait)
		}
	}
}
