package bridge

import (
	"tidegate/codec"
	"tidegate/proxy/stats"
)

// Failure is a message that was not sent.
type Failure struct {
	Why  stats.Drop
	Size int
	Err  error
	// Ends says that the session must end. The message's promise cannot be kept, and its Direction does not allow a
	// weaker one.
	Ends bool
}

// HasFailed reports whether there is a failure to take.
func (c *Carrier) HasFailed() bool { return c.taken < len(c.failures) }

// Failure takes the oldest failure.
func (c *Carrier) Failure() Failure {
	f := c.failures[c.taken]
	if c.taken++; !c.HasFailed() {
		c.failures, c.taken = c.failures[:0], 0
	}
	return f
}

func (c *Carrier) fail(f Failure) { c.failures = append(c.failures, f) }

// undeclared drops a message that no table of the route has.
func (c *Carrier) undeclared(d *Direction, m *codec.Message) {
	c.ended = d.strict
	c.fail(Failure{Why: stats.DropUndeclared, Size: len(m.Payload), Ends: d.strict})
}
