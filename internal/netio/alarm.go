package netio

import (
	"slices"
	"time"
)

// alarm calls due at a time, unless it is stopped before. It belongs to what it is about, so setting one allocates
// nothing.
type alarm struct {
	due        func()
	at         time.Time
	queue      *alarms // while set
	prev, next *alarm
}

// alarms are alarms that ring after the same delay, so that the first set is the first due.
type alarms struct {
	delay       time.Duration
	first, last *alarm
}

// set has a ring after the delay. A set one is set anew.
func (q *alarms) set(a *alarm) {
	a.stop()
	a.queue, a.at, a.prev = q, time.Now().Add(q.delay), q.last
	if q.last != nil {
		q.last.next = a
	} else {
		q.first = a
	}
	q.last = a
}

// stop keeps the alarm from ringing.
func (a *alarm) stop() {
	q := a.queue
	if q == nil {
		return
	}
	if a.prev != nil {
		a.prev.next = a.next
	} else {
		q.first = a.next
	}
	if a.next != nil {
		a.next.prev = a.prev
	} else {
		q.last = a.prev
	}
	a.queue, a.prev, a.next = nil, nil, nil
}

// ringAll calls all alarms now.
func (q *alarms) ringAll() {
	for a := q.first; a != nil; a = q.first {
		a.stop()
		a.due()
	}
}

// alarmClock is all the alarms of a Poller. They ring only if they were due at the last look for input. So after a
// pause of the process, input comes first.
type alarmClock struct {
	queues []*alarms
	looked time.Time // when input was looked for last, if any alarm was set
}

// add returns new alarms of a delay.
func (c *alarmClock) add(delay time.Duration) *alarms {
	q := &alarms{delay: delay}
	c.queues = append(c.queues, q)
	return q
}

// drop forgets alarms, none of which is set.
func (c *alarmClock) drop(q *alarms) {
	c.queues = slices.DeleteFunc(c.queues, func(other *alarms) bool { return other == q })
}

// look is for before each look for input.
func (c *alarmClock) look() {
	if c.isSet() {
		c.looked = time.Now()
	}
}

func (c *alarmClock) isSet() bool {
	return slices.ContainsFunc(c.queues, func(q *alarms) bool { return q.first != nil })
}

// before is the deadline, or the first alarm's time if that is earlier; zero is never.
func (c *alarmClock) before(deadline time.Time) time.Time {
	for _, q := range c.queues {
		if q.first != nil && (deadline.IsZero() || q.first.at.Before(deadline)) {
			deadline = q.first.at
		}
	}
	return deadline
}

// ring calls the alarms that were due when input was looked for last.
func (c *alarmClock) ring() {
	for _, q := range c.queues {
		for a := q.first; a != nil && !c.looked.Before(a.at); a = q.first {
			a.stop()
			a.due()
		}
	}
}
