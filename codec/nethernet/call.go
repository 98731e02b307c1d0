package nethernet

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"tidegate/codec"
)

// Call is the dialing end of a connection, from its join over HTTP on. Its owner asks the server, and tells the Call
// the result: Begin or Fail. The owner calls Advance when the Stack has something.
type Call struct {
	Conn
	agent agent
	why   codec.Reason // of an end that the Stack does not tell
}

var _ codec.Throttler = (*Call)(nil)

// Begin begins ICE's checks and the connection above a Stack that has dialed. The Integrity is lent until the end.
func (c *Call) Begin(now time.Time, answer *Answer, g *Integrity, stack Stack) {
	c.agent = agent{answer: answer, integrity: g, next: now}
	c.stack, c.dials = stack, true
}

// Fail ends a Call that has no Stack.
func (c *Call) Fail(why codec.Reason) {
	if c.why == codec.ReasonNone {
		c.why = why
	}
}

// Receive implements codec.Conn.
func (c *Call) Receive(now time.Time, datagram []byte) error {
	switch {
	case c.stack == nil:
		return c.stats.Count(codec.ErrUnexpected)
	case IsSTUN(datagram):
		return c.stats.Count(c.agent.receive(now, datagram))
	}
	return c.Conn.Receive(now, datagram)
}

// Advance implements codec.Conn.
func (c *Call) Advance(now time.Time) {
	if c.stack == nil {
		return
	}
	c.Conn.Advance(now)
	if c.agent.isLost(now) && c.why == codec.ReasonNone && !c.over {
		c.why = codec.TimedOut
		c.stack.Abandon()
	}
}

// Send implements codec.Conn.
func (c *Call) Send(now time.Time, m codec.Message) error {
	if c.stack == nil || c.why != codec.ReasonNone {
		return codec.ErrClosed
	}
	return c.Conn.Send(now, m)
}

// Admit implements codec.Conn.
func (c *Call) Admit(time.Time, uint16) {}

// Close implements codec.Conn.
func (c *Call) Close(now time.Time, why codec.Goodbye) {
	if c.stack == nil {
		c.Fail(codec.Closed)
		return
	}
	c.Conn.Close(now, why)
}

// Poll implements codec.Conn.
func (c *Call) Poll() (codec.Event, bool) {
	if c.why != codec.ReasonNone && !c.over {
		c.over = true
		return codec.Event{Kind: codec.Disconnected, Reason: c.why}, true
	}
	return c.Conn.Poll()
}

// Transmit implements codec.Conn. DTLS must wait until the server has answered a check.
func (c *Call) Transmit(now time.Time, b []byte) ([]byte, bool) {
	if c.stack == nil || c.why != codec.ReasonNone {
		return b, false
	}
	b, ok := c.agent.transmit(now, b)
	switch {
	case ok:
		c.stats.Sent++
	case c.agent.works():
		return c.Conn.Transmit(now, b)
	}
	return b, ok
}

// NextTimeout implements codec.Conn.
func (c *Call) NextTimeout() time.Time {
	if c.stack == nil || c.why != codec.ReasonNone || c.over {
		return time.Time{}
	}
	return c.agent.timeout()
}

// Abandon ends the Stack at once.
func (c *Call) Abandon() {
	c.Fail(codec.Closed)
	if c.stack != nil {
		c.stack.Abandon()
	}
}

// ErrBusy reports that a bound of this process is reached, which is no fault of a server.
var ErrBusy = errors.New("nethernet: too many connections begin at once")

// Refusal is a server's refusal of a join: an HTTP status, or a status of success and a number in place of an answer.
type Refusal struct {
	Status int
	Text   string // the body
}

// maxRefusal bounds the text of an error.
const maxRefusal = 40

// Error implements error.
func (r *Refusal) Error() string {
	text := strings.ToValidUTF8(r.Text[:min(len(r.Text), maxRefusal)], "")
	return fmt.Sprintf("the server has refused the join: HTTP status %d, %q", r.Status, text)
}

// Statuses of HTTP.
const (
	statusBad        = 400
	statusNotFound   = 404
	statusNotAllowed = 405
	statusWantsTLS   = 426
	statusServer     = 500 // the least that is the server's own fault
	statusFull       = 503
)

// Reason returns the reason that a player is told.
func (r *Refusal) Reason() codec.Reason {
	switch {
	case r.Status == statusFull:
		return codec.ServerFull
	case r.Status >= statusServer:
		return codec.NoConnection
	case r.Status == statusBad, r.Status == statusNotFound, r.Status == statusNotAllowed, r.Status == statusWantsTLS:
		return codec.Incompatible
	}
	return codec.Rejected
}
