package proxy

import "time"

// longPause is how late a look at the clock may be before the process counts as having stood still: a signal stopped
// it, or its machine froze.
const longPause = time.Second

// mostCatchUp bounds the turns after a pause that read and run nothing that is due.
const mostCatchUp = 64

// clock is a loop's time. It is looked at after each read, so that nothing that is read after a pause is judged by a
// time before it. What came during the pause is read before deadlines that passed in it are run.
type clock struct {
	read    func() time.Time
	now     time.Time // as last looked at
	before  time.Time // the last pause
	catchUp int       // turns that may still go by until deadlines are run; 0: there was no pause
	emptied bool      // nothing is left to read, since the last due
}

func newClock(read func() time.Time) clock { return clock{read: read} }

func (c *clock) start() { c.now = c.read() }

// look looks at the clock within a turn, and returns how long the process stood still since the last look.
func (c *clock) look() (pause time.Duration) { return c.lookSince(c.now) }

// wake looks at the clock after a wait until a deadline, at the latest; zero is none.
func (c *clock) wake(deadline time.Time) (pause time.Duration) {
	if deadline.IsZero() {
		c.now = c.read() // nothing was to be done: the wait was as long as it liked
		return 0
	}
	if deadline.Before(c.now) {
		deadline = c.now
	}
	return c.lookSince(deadline)
}

// lookSince looks at the clock, which was to be looked at by due.
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

// due is the time up to which deadlines are to be run in this turn. After a pause it is one before it, until a whole
// turn has left nothing to read.
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
