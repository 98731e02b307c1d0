package netio

import (
	"testing"
	"time"
)

func TestAlarms(t *testing.T) {
	var clock alarmClock
	soon, late := clock.add(-time.Second), clock.add(time.Hour) // soon's are due when they are set
	if !clock.before(time.Time{}).IsZero() {
		t.Error("a deadline without an alarm")
	}
	var rung []string
	set := func(q *alarms, name string) *alarm {
		a := &alarm{due: func() { rung = append(rung, name) }}
		q.set(a)
		return a
	}
	set(soon, "first")
	stopped := set(soon, "stopped")
	set(soon, "last")
	kept := set(late, "late")
	stopped.stop()
	stopped.stop()
	if got := clock.before(time.Time{}); got != soon.first.at {
		t.Errorf("deadline %v, want the first alarm's", got)
	}
	early := time.Unix(1, 0)
	if got := clock.before(early); got != early {
		t.Errorf("deadline %v, want the earlier one given", got)
	}
	if clock.ring(); len(rung) > 0 {
		t.Errorf("rung %v before input was looked for", rung)
	}
	clock.look()
	clock.ring()
	clock.ring()
	if len(rung) != 2 || rung[0] != "first" || rung[1] != "last" {
		t.Errorf("rung %v", rung)
	}
	if got := clock.before(time.Time{}); got != kept.at {
		t.Errorf("deadline %v, want the late alarm's", got)
	}
	late.ringAll()
	clock.drop(late)
	if len(rung) != 3 || len(clock.queues) != 1 {
		t.Errorf("rung %v, %d queues", rung, len(clock.queues))
	}
}
