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
	agent agent
	conn  *Conn // nil: the server has not answered
	stats codec.Stats
	why   codec.Reason // of an end that the Stack does not tell
	over  bool
}

var _ codec.Throttler = (*Call)(nil)

// Begin begins ICE's checks and the connection above a Stack that has dialed. The Integrity is lent until the end.
func (c *Call) Begin(now time.Time, answer *Answer, g *Integrity, stack Stack) {
	c.agent = agent{answer: answer, integrity: g, next: now}
	c.conn = NewConn(stack, true)
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
	case c.conn == nil:
		return c.stats.Count(codec.ErrUnexpected)
	case IsSTUN(datagram):
		return c.stats.Count(c.agent.receive(now, datagram))
	}
	return c.conn.Receive(now, datagram)
}

// Advance implements codec.Conn.
func (c *Call) Advance(now time.Time) {
	if c.conn == nil {
		return
	}
	c.conn.Advance(now)
	if c.agent.isLost(now) && c.why == codec.ReasonNone && !c.over {
		c.why = codec.TimedOut
		c.conn.Abandon()
	}
}

// Send implements codec.Conn.
func (c *Call) Send(now time.Time, m codec.Message) error {
	if c.conn == nil || c.why != codec.ReasonNone {
		return codec.ErrClosed
	}
	return c.conn.Send(now, m)
}

// Announce implements codec.Conn.
func (c *Call) Announce(time.Time, codec.EventKind, uint16) error { return codec.ErrMode }

// Admit implements codec.Conn.
func (c *Call) Admit(time.Time, uint16) {}

// Close implements codec.Conn.
func (c *Call) Close(now time.Time, why codec.Goodbye) {
	if c.conn == nil {
		c.Fail(codec.Closed)
		return
	}
	c.conn.Close(now, why)
}

// Poll implements codec.Conn.
func (c *Call) Poll() (codec.Event, bool) {
	switch {
	case c.over:
		return codec.Event{}, false
	case c.why != codec.ReasonNone:
		c.over = true
		return codec.Event{Kind: codec.Disconnected, Reason: c.why}, true
	case c.conn == nil:
		return codec.Event{}, false
	}
	ev, ok := c.conn.Poll()
	c.over = ok && ev.Kind == codec.Disconnected
	return ev, ok
}

// Transmit implements codec.Conn. DTLS must wait until the server has answered a check.
func (c *Call) Transmit(now time.Time, b []byte) ([]byte, bool) {
	if c.conn == nil || c.why != codec.ReasonNone {
		return b, false
	}
	b, ok := c.agent.transmit(now, b)
	switch {
	case ok:
		c.stats.Sent++
	case c.agent.works():
		return c.conn.Transmit(now, b)
	}
	return b, ok
}

// NextTimeout implements codec.Conn.
func (c *Call) NextTimeout() time.Time {
	if c.conn == nil || c.why != codec.ReasonNone || c.over {
		return time.Time{}
	}
	return c.agent.timeout()
}

// Stats implements codec.Conn.
func (c *Call) Stats() codec.Stats {
	if c.conn == nil {
		return c.stats
	}
	s := c.conn.Stats()
	s.Sent, s.Received, s.Dropped = s.Sent+c.stats.Sent, s.Received+c.stats.Received, s.Dropped+c.stats.Dropped
	return s
}

// Save implements codec.Conn. A Stack cannot be saved: its owner ends the connection before.
func (c *Call) Save(_ time.Time, b []byte) []byte { return b }

// Throttle implements codec.Throttler.
func (c *Call) Throttle(now time.Time, p codec.Pressure) {
	if c.conn != nil {
		c.conn.Throttle(now, p)
	}
}

// Fill implements codec.Throttler.
func (c *Call) Fill() float64 {
	if c.conn == nil {
		return 0
	}
	return c.conn.Fill()
}

// Waiting implements codec.Throttler.
func (c *Call) Waiting() int { return 0 }

// End returns why the Stack has ended.
func (c *Call) End() End {
	if c.conn == nil {
		return End{}
	}
	return c.conn.End()
}

// Abandon ends the Stack at once.
func (c *Call) Abandon() {
	c.Fail(codec.Closed)
	if c.conn != nil {
		c.conn.Abandon()
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
