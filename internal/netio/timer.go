package netio

import (
	"slices"
	"time"
)

// timer calls due at a time, unless it is stopped first. It is part of its owner, so setting one does not allocate.
type timer struct {
	due        func()
	at         time.Time
	queue      *timerQueue // while set
	prev, next *timer
}

// timerQueue holds timers with the same delay, so that they fire in the order in which they were set.
type timerQueue struct {
	delay       time.Duration
	first, last *timer
}

// set starts or restarts a timer.
func (q *timerQueue) set(a *timer) {
	a.stop()
	a.queue, a.at, a.prev = q, time.Now().Add(q.delay), q.last
	if q.last != nil {
		q.last.next = a
	} else {
		q.first = a
	}
	q.last = a
}

// stop cancels the timer.
func (a *timer) stop() {
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

// fireAll fires all timers now.
func (q *timerQueue) fireAll() {
	for a := q.first; a != nil; a = q.first {
		a.stop()
		a.due()
	}
}

// timers are all the timers of a Poller. A timer fires only if it was due at the last poll for input. So after a
// pause of the process, input comes first.
type timers struct {
	queues []*timerQueue
	polled time.Time // time of the last poll for input, if any timer was set
}

// add returns a new queue for timers with a delay.
func (c *timers) add(delay time.Duration) *timerQueue {
	q := &timerQueue{delay: delay}
	c.queues = append(c.queues, q)
	return q
}

// drop removes a queue, which must be empty.
func (c *timers) drop(q *timerQueue) {
	c.queues = slices.DeleteFunc(c.queues, func(other *timerQueue) bool { return other == q })
}

// beforePoll must be called before each poll for input.
func (c *timers) beforePoll() {
	if c.isSet() {
		c.polled = time.Now()
	}
}

func (c *timers) isSet() bool {
	return slices.ContainsFunc(c.queues, func(q *timerQueue) bool { return q.first != nil })
}

// earlier returns the earlier one of the deadline and the first timer. Zero means never.
func (c *timers) earlier(deadline time.Time) time.Time {
	for _, q := range c.queues {
		if q.first != nil && (deadline.IsZero() || q.first.at.Before(deadline)) {
			deadline = q.first.at
		}
	}
	return deadline
}

// fire fires the timers that were due at the last poll for input.
func (c *timers) fire() {
	for _, q := range c.queues {
		for a := q.first; a != nil && !c.polled.Before(a.at); a = q.first {
			a.stop()
			a.due()
		}
	}
}
