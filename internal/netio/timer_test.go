package netio

import (
	"testing"
	"time"
)

func TestAlarms(t *testing.T) {
	var clock timers
	soon, late := clock.add(-time.Second), clock.add(time.Hour) // soon's are due when they are set
	if !clock.earlier(time.Time{}).IsZero() {
		t.Error("a deadline without a timer")
	}
	var fired []string
	set := func(q *timerQueue, name string) *timer {
		a := &timer{due: func() { fired = append(fired, name) }}
		q.set(a)
		return a
	}
	set(soon, "first")
	stopped := set(soon, "stopped")
	set(soon, "last")
	kept := set(late, "late")
	stopped.stop()
	stopped.stop()
	if got := clock.earlier(time.Time{}); got != soon.First.at {
		t.Errorf("deadline %v, want the first timer's", got)
	}
	early := time.Unix(1, 0)
	if got := clock.earlier(early); got != early {
		t.Errorf("deadline %v, want the earlier one given", got)
	}
	if clock.fire(); len(fired) > 0 {
		t.Errorf("fired %v before a poll for input", fired)
	}
	clock.beforePoll()
	clock.fire()
	clock.fire()
	if len(fired) != 2 || fired[0] != "first" || fired[1] != "last" {
		t.Errorf("fired %v", fired)
	}
	if got := clock.earlier(time.Time{}); got != kept.at {
		t.Errorf("deadline %v, want the late timer's", got)
	}
	late.fireAll()
	clock.drop(late)
	if len(fired) != 3 || len(clock.queues) != 1 {
		t.Errorf("fired %v, %d queues", fired, len(clock.queues))
	}
}
