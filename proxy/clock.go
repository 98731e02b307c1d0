package proxy

import "time"

// longPause is how late a look at the clock may be. A later one means that the process stood still: a signal stopped
// it, or its machine froze.
const longPause = time.Second

// mostCatchUp bounds the turns after a pause that only read, and run no due work.
const mostCatchUp = 64

// clock is a loop's time. The loop looks at it after each read. So no datagram read after a pause is judged by a time
// before it. The loop reads waiting datagrams before it runs deadlines that passed in the pause.
type clock struct {
	read    func() time.Time
	now     time.Time // at the last look
	before  time.Time // the time before the last pause
	catchUp int       // turns left until deadlines are run; 0: there was no pause
	emptied bool      // nothing was left to read, since the last call of due
}

func newClock(read func() time.Time) clock { return clock{read: read} }

func (c *clock) start() { c.now = c.read() }

// look looks at the clock within a turn. It returns how long the process stood still since the last look, or 0.
func (c *clock) look() (pause time.Duration) { return c.lookSince(c.now) }

// wake looks at the clock after a wait until deadline at the latest. A zero deadline means that the wait had none.
func (c *clock) wake(deadline time.Time) (pause time.Duration) {
	if deadline.IsZero() {
		c.now = c.read() // the wait had no limit
		return 0
	}
	if deadline.Before(c.now) {
		deadline = c.now
	}
	return c.lookSince(deadline)
}

// lookSince looks at the clock. The look was due at due.
func (c *clock) lookSince(due time.Time) (pause time.Duration) {
	was := c.now
	c.now = c.read()
	if pause = c.now.Sub(due); pause < longPause {
		return 0
	}
	if c.catchUp == 0 {
		c.before = was
	}
	c.catchUp = mostCatchUp
	return pause
}

// due returns the time up to which this turn runs deadlines. After a pause it is a time before the pause, until a
// whole turn has left nothing to read.
func (c *clock) due() time.Time {
	emptied := c.emptied && c.catchUp < mostCatchUp // the turn of the pause may not have looked for input
	c.emptied = false
	if c.catchUp > 0 {
		c.catchUp--
	}
	if emptied {
		c.catchUp = 0
	}
	if c.catchUp > 0 {
		return c.before
	}
	return c.now
}
