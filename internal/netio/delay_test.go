package netio

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestBatchDelayNext(t *testing.T) {
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
		{"a past deadline", most, 1, -most, -most},
	} {
		synctest.Test(t, func(t *testing.T) {
			d := batchDelay{max: c.max, handled: c.handled}
			var deadline time.Time
			if c.deadline != 0 {
				deadline = time.Now().Add(c.deadline)
			}
			if got := d.next(deadline); got != c.want {
				t.Errorf("%s: a delay of %s, want %s", c.what, got, c.want)
			}
			if got := d.next(deadline); got != 0 {
				t.Errorf("%s: another delay of %s for the same turn", c.what, got)
			}
		})
	}
}
