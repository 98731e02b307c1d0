package relay

import (
	"errors"
	"time"

	"tidegate/codec"
	"tidegate/codec/nethernet"
)

// A server that speaks NetherNet is asked over HTTP, beside the loop. The session waits for the answer without a
// socket. Then the Relay is ICE's controlling agent, and DTLS and SCTP run beside the loop as for a client.

// call begins to join the session's server.
func (r *Relay) call(e *Entry) *call {
	c := &call{of: e, all: r.calls.all}
	c.all[c] = struct{}{}
	c.wake = func() { r.wake(c) }
	c.question = e.Value.route.Upstream.Joiner.Join(e.Value.server.Addr, c.wake)
	return c
}

// take implements stacked.
func (c *call) take(r *Relay, now time.Time) {
	e := c.of
	if e == nil || e.Value.life == gone {
		return
	}
	s := &e.Value
	switch {
	case s.socket != nil:
		c.Advance(now)
	case !s.upstream.Live():
		return // it has given up
	default:
		err := c.begin(r, now)
		if errors.Is(err, nethernet.ErrBusy) {
			s.wait(now)
			r.dirty.mark(e)
			return
		}
		if err != nil {
			r.journal.because(e, err.Error())
			c.Fail(reasonOf(err))
		}
	}
	if end := c.End(); end.Err != nil {
		r.journal.because(e, end.Err.Error())
	}
	r.settleSides(now, e, serverSide)
}

// reasonOf returns what a player is told of a join that has failed.
func reasonOf(err error) codec.Reason {
	if refusal, ok := errors.AsType[*nethernet.Refusal](err); ok {
		return refusal.Reason()
	}
	return codec.NoConnection
}

// begin takes the server's answer, if it is there, and opens the way that it names.
func (c *call) begin(r *Relay, now time.Time) error {
	answer, err := c.question.Take()
	if answer == nil {
		return err
	}
	if err := r.openUp(now, c.of, answer.Target); err != nil {
		return err
	}
	stack, err := c.of.Value.route.Upstream.Joiner.Dial(answer.Peer, c.wake)
	if err != nil {
		return err
	}
	c.Begin(now, answer, r.calls.integrity, stack)
	if s := &c.of.Value; s.life.isJoining() {
		s.dialBy = s.giveUpAt(now, r.settings.HandshakeTimeout, false)
	}
	return nil
}
