package netio

import (
	"slices"
	"time"

	"tidegate/internal/linked"
)

// timer calls due at a time, unless it is stopped first. It is part of its owner, so setting one does not allocate.
type timer struct {
	linked.Links[timer]
	due   func()
	at    time.Time
	queue *timerQueue // while set
}

// timerQueue holds timers with the same delay, so that they fire in the order in which they were set.
type timerQueue struct {
	linked.List[timer, *timer]
	delay time.Duration
}

// set starts or restarts a timer.
func (q *timerQueue) set(a *timer) {
	a.stop()
	a.queue, a.at = q, time.Now().Add(q.delay)
	q.Push(a)
}

// stop cancels the timer.
func (a *timer) stop() {
	if a.queue != nil {
		a.queue.Remove(a)
		a.queue, a.Links = nil, linked.Links[timer]{}
	}
}

// fireAll fires all timers now.
func (q *timerQueue) fireAll() {
	for a := q.First; a != nil; a = q.First {
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
	return slices.ContainsFunc(c.queues, func(q *timerQueue) bool { return q.First != nil })
}

// earlier returns the earlier one of the deadline and the first timer. Zero means never.
func (c *timers) earlier(deadline time.Time) time.Time {
	for _, q := range c.queues {
		if q.First != nil && (deadline.IsZero() || q.First.at.Before(deadline)) {
			deadline = q.First.at
		}
	}
	return deadline
}

// fire fires the timers that were due at the last poll for input.
func (c *timers) fire() {
	for _, q := range c.queues {
		for a := q.First; a != nil && !c.polled.Before(a.at); a = q.First {
			a.stop()
			a.due()
		}
	}
}

const (
	busyTurn      = 64                   // datagrams in a turn from which waiting for more gains little
	worthWaiting  = 2                    // datagrams that a delay must bring
	loadPeriod    = 4 * time.Millisecond // over which the load is measured
	shortestPause = 32 * time.Millisecond
	longestPause  = 2 * time.Second
)

// moderation delays the next turn under a steady load of few datagrams a turn, so that it gets more of them. Network
// cards moderate their interrupts for the same reason. A quiet loop, and a turn with many datagrams, have no delay.
//
// Some peers send only when they have an answer. Delays slow them down, and so bring fewer datagrams, not more. When
// the rate falls with the delays, there are none for a pause, which doubles each time.
type moderation struct {
	max     time.Duration // of a delay; 0 is off
	handled int           // datagrams since the last turn

	began    time.Time // of the period of load that is measured now
	count    int       // its datagrams
	rate     float64   // datagrams a second in the last whole period
	delayed  bool      // this period has delays
	pause    time.Duration
	pausedTo time.Time
}

// next returns the sleep before the next turn. It ends at the deadline, unless that is zero. The result may be
// negative.
func (m *moderation) next(deadline time.Time) time.Duration {
	handled := m.handled
	if m.max <= 0 || handled == 0 {
		return 0
	}
	m.handled = 0
	now := time.Now()
	m.measure(now, handled)
	if handled >= busyTurn || m.rate*m.max.Seconds() < worthWaiting || now.Before(m.pausedTo) {
		return 0
	}
	m.delayed = true
	d := min(m.max, time.Duration(busyTurn/m.rate*float64(time.Second)))
	if !deadline.IsZero() {
		d = min(d, deadline.Sub(now))
	}
	return d
}

// measure adds a turn's datagrams to the load.
func (m *moderation) measure(now time.Time, handled int) {
	m.count += handled
	took := now.Sub(m.began)
	if took < loadPeriod {
		return
	}
	rate := float64(m.count) / took.Seconds()
	if m.delayed && took < 2*loadPeriod { // a longer one had silence, which is not the delays' fault
		m.judge(now, rate)
	}
	m.began, m.count, m.rate, m.delayed = now, 0, rate, false
}

// judge compares the rate of a period of delays with the one before.
func (m *moderation) judge(now time.Time, rate float64) {
	if rate >= m.rate*3/4 {
		m.pause /= 2
		return
	}
	m.pause = min(max(2*m.pause, shortestPause), longestPause)
	m.pausedTo = now.Add(m.pause)
}
