package netio

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestBatchDelayPause(t *testing.T) {
	const most = time.Millisecond
	for _, c := range []struct {
		what     string
		max      time.Duration
		handled  int
		deadline time.Duration // from now; 0 is none
		want     time.Duration
	}{
		{"off", 0, 1, 0, 0},
		{"nothing handled", most, 0, 0, 0},
		{"few handled", most, 1, 0, most},
		{"just not busy", most, busyTurn - 1, 0, most},
		{"busy", most, busyTurn, 0, 0},
		{"a later deadline", most, 1, 2 * most, most},
		{"a near deadline", most, 1, most / 2, most / 2},
		{"a past deadline", most, 1, -most, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			d := batchDelay{max: c.max, handled: c.handled}
			var deadline time.Time
			start := time.Now()
			if c.deadline != 0 {
				deadline = start.Add(c.deadline)
			}
			d.pause(deadline)
			if got := time.Since(start); got != c.want {
				t.Errorf("%s: paused %s, want %s", c.what, got, c.want)
			}
			d.pause(deadline)
			if got := time.Since(start); got != c.want {
				t.Errorf("%s: paused again for the same turn", c.what)
			}
		})
	}
}
