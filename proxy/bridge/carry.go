package bridge

import (
	"errors"
	"time"

	"tidegate/codec"
	"tidegate/proxy/stats"
)

// Carrier carries messages to Senders. One Carrier serves all sessions of a loop. Its owner takes the Failures after
// each call.
type Carrier struct {
	counters *stats.Counters
	scratch  []byte
	failures []Failure
	taken    int  // of failures
	ended    bool // a failure of this call ends the session: the Carrier sends nothing more
}

// NewCarrier returns a Carrier that counts in the given counters.
func NewCarrier(counters *stats.Counters) Carrier { return Carrier{counters: counters} }

// Carry sends one message from one side on to the other, on its way or, without one, as without a map. A message in an
// envelope must be unwrapped first (Parts).
func (c *Carrier) Carry(now time.Time, to *Sender, d *Direction, m *codec.Message, way *Way) {
	c.ended = false
	if !to.Takes() {
		c.fail(Failure{Why: stats.DropClosing, Size: len(m.Payload)})
		return
	}
	if m.Receipt != 0 { // a store would delay the copy of m that follows
		m.Receipt = 0
	}
	switch {
	case way != nil && way.drops:
		c.undeclared(d, m)
	case d.translator != nil && (d.open == nil || way != nil) && !c.translate(d, m):
	case way != nil:
		c.sendJoined(now, to) // which came before
		c.scratch = way.turn(c.scratch[:0], m)
		c.send(now, to, d, m)
	default:
		c.wrap(now, to, d, m)
	}
}

// translate rewrites a message for the far side. It reports false if it drops the message.
func (c *Carrier) translate(d *Direction, m *codec.Message) bool {
	payload, pad, translation := d.translator.Translate(c.scratch[:0], *m)
	switch translation {
	case Passed:
		c.counters.Passed++
		return true
	case Translated:
		c.scratch = payload
		m.Payload, m.Pad = payload, pad
		return true
	case Undeclared:
		c.undeclared(d, m)
	default:
		c.fail(Failure{Why: stats.DropSchema, Size: len(m.Payload)})
	}
	return false
}

// wrap gives a message the far side's form and sends it on.
func (c *Carrier) wrap(now time.Time, to *Sender, d *Direction, m *codec.Message) {
	switch {
	case d.seal == nil && d.rounds:
		m.Pad = 0
	case d.seal == nil:
	case !d.seal.fits(m):
		c.unsent(d, m, m.Mode, codec.ErrTooLarge)
		return
	case d.seal.joins():
		c.join(now, to, d, m)
		return
	default:
		c.scratch = d.seal.wrap(c.scratch[:0], m)
		m.Payload, m.Pad, m.HasID = c.scratch, 0, false
	}
	c.send(now, to, d, m)
}

// send gives a message to a side, in the mode that keeps the message's promise there.
func (c *Carrier) send(now time.Time, to *Sender, d *Direction, m *codec.Message) {
	if c.ended {
		c.fail(Failure{Why: stats.DropClosing, Size: len(m.Payload), Err: codec.ErrClosed})
		return
	}
	want := m.Mode
	step := d.stepOf(m)
	switch step.hold {
	case holdWatch:
		to.order.watch(m)
	case holdOne:
		if !to.order.begin(m) {
			if !to.order.keep(m, isSequenced(want), d.queue) {
				c.unsent(d, m, want, codec.ErrFull)
			}
			return
		}
	}
	if m.Mode != step.mode { // as in Carry
		m.Mode = step.mode
	}
	err, care := codec.ErrFull, to.careFor(step.care, want)
	if care == careNone || to.kept.keep(m, care, want != codec.Reliable, d.queue) {
		err = to.send(now, m)
	}
	if err != nil {
		if m.Receipt&resendBit != 0 {
			to.kept.forget(m.Receipt)
		}
		if step.hold == holdOne {
			to.order.cancel(m.Channel)
		}
		c.unsent(d, m, want, err)
	}
}

// stepOf returns how a message is sent on. It gives the message its channel and ID on the far side.
func (d *Direction) stepOf(m *codec.Message) step {
	if d.channels > 0 {
		m.Channel %= uint8(d.channels) // channels may share one; each keeps its own order
	}
	switch {
	case !d.wantsID || m.HasID:
	case d.notify && !m.Mode.IsReliable():
		return step{mode: codec.Notify}
	case m.Mode != codec.Notify:
		m.ID, m.HasID = d.rawID, true
	}
	return d.steps[m.Mode]
}

// Answered handles the fate of a message sent to a side. It then sends the next waiting message of that channel.
func (c *Carrier) Answered(now time.Time, s *Sender, d *Direction, ev *codec.Event) {
	c.ended = false
	c.answered(now, s, d, ev)
}

func (c *Carrier) answered(now time.Time, s *Sender, d *Direction, ev *codec.Event) {
	if ev.Receipt&resendBit != 0 && !c.cared(now, s, ev) {
		return
	}
	channel, overtaken, free := s.order.answered(ev.Receipt)
	if overtaken {
		c.counters.Overtaken++
	}
	for free && s.Takes() {
		m := s.order.next(channel)
		if m == nil {
			return
		}
		c.send(now, s, d, m)
		free = !s.order.busy(channel)
	}
}

// cared handles the fate of a kept message. It reports whether order must know this fate. It then gives the event the
// receipt by which order knows the message.
func (c *Carrier) cared(now time.Time, s *Sender, ev *codec.Event) bool {
	if !s.kept.has(ev.Receipt) {
		return false // only a damaged record of a saved session has such a receipt
	}
	k := s.kept.of(ev.Receipt)
	if ev.Kind == codec.Lost {
		switch {
		case k.care == careReport:
			c.counters.Lost++
		case k.care == careResend && s.Live() && s.Conn.Send(now, k.message) == nil:
			c.counters.Resent++
			if k.ordered && k.inner == 0 {
				c.counters.Overtaken++
			}
			return false
		case s.Keeps || s.Away: // the next server gets it, or Purge decides
			s.kept.lose(ev.Receipt)
			return false
		default:
			c.counters.Lost++
		}
	}
	inner := k.inner
	s.kept.forget(ev.Receipt)
	ev.Receipt = inner
	return inner != 0
}

// unsent handles a message that a side did not take. Delivery is never weakened silently. The session ends if the
// message's promise cannot be kept and the options do not allow a weaker one.
func (c *Carrier) unsent(d *Direction, m *codec.Message, want codec.Mode, err error) {
	f := Failure{Why: stats.DropOf(err), Size: len(m.Payload), Err: err}
	if errors.Is(err, errAway) {
		f.Why = stats.DropHeld
	}
	f.Ends = want.IsReliable() && !d.lossy && (errors.Is(err, codec.ErrTooLarge) || errors.Is(err, codec.ErrFull))
	c.ended = c.ended || f.Ends
	c.fail(f)
}
