package proxy

import (
	"errors"
	"time"

	"tidegate/codec"
)

// carry sends a message that came from one side on to the other.
func (r *Relay) carry(now time.Time, e *entry, to *side, l *lane, m *codec.Message) {
	if !to.takes() {
		r.drop(now, DropClosing, e.Value.door, e.Key.Client, len(m.Payload), nil)
		return
	}
	m.Receipt = 0
	switch {
	case l.open != nil:
		r.unwrap(now, e, to, l, m)
	case l.translator == nil || r.translate(now, e, l, m):
		r.wrap(now, e, to, l, m)
	}
}

// translate puts a message into the far side's words, or drops it.
func (r *Relay) translate(now time.Time, e *entry, l *lane, m *codec.Message) bool {
	why := DropSchema
	payload, pad, translation := l.translator.Translate(r.scratch[:0], *m)
	switch translation {
	case Passed:
		r.counters.Passed++
		return true
	case Translated:
		r.scratch = payload
		m.Payload, m.Pad = payload, pad
		return true
	case Undeclared:
		why = DropUndeclared
	}
	r.drop(now, why, e.Value.door, e.Key.Client, len(m.Payload), nil)
	return false
}

// unwrap sends on each message of an envelope.
func (r *Relay) unwrap(now time.Time, e *entry, to *side, l *lane, m *codec.Message) {
	size := len(m.Payload)
	rest, hasID, err := l.open.open(m.Payload)
	for first := true; err == nil && (first || len(rest) > 0); first = false {
		one := *m
		if rest, err = l.open.next(rest, hasID, &one); err == nil {
			r.wrap(now, e, to, l, &one)
		}
	}
	if err != nil {
		r.drop(now, DropEnvelope, e.Value.door, e.Key.Client, size, err)
	}
}

// wrap sends a message on in the far side's form.
func (r *Relay) wrap(now time.Time, e *entry, to *side, l *lane, m *codec.Message) {
	switch {
	case l.seal == nil:
	case !l.seal.fits(m):
		r.unsent(now, e, l, m, m.Mode, codec.ErrTooLarge)
		return
	case l.seal.joins():
		r.join(now, e, to, l, m)
		return
	default:
		r.scratch = l.seal.wrap(r.scratch[:0], m)
		m.Payload, m.Pad, m.HasID = r.scratch, 0, false
	}
	r.send(now, e, to, l, m)
}

// send gives a message to a side, in the mode that keeps its promise there.
func (r *Relay) send(now time.Time, e *entry, to *side, l *lane, m *codec.Message) {
	want := m.Mode
	step := l.steps[want]
	if l.channels > 0 {
		m.Channel %= uint8(l.channels) // several channels may share one: the order of each is kept
	}
	switch {
	case !l.wantsID || m.HasID:
	case l.notify && !want.IsReliable():
		step = lNotify
	case want != codec.Notify:
		m.ID, m.HasID = l.rawID, true
	}
	limit := e.Value.route.Queue
	switch step.hold {
	case holdWatch:
		to.order.watch(m)
	case holdOne:
		if !to.order.begin(m) {
			if !to.order.keep(m, isSequenced(want), limit) {
				r.unsent(now, e, l, m, want, codec.ErrFull)
			}
			return
		}
	}
	m.Mode = step.mode
	err, care := codec.ErrFull, to.careFor(step.care, want)
	if care == careNone || to.kept.keep(m, care, want != codec.Reliable, limit) {
		err = to.send(now, m)
	}
	if err != nil {
		if m.Receipt&resendBit != 0 {
			to.kept.forget(m.Receipt)
		}
		if step.hold == holdOne {
			to.order.cancel(m.Channel)
		}
		r.unsent(now, e, l, m, want, err)
	}
}

// lNotify is the step of a message without an ID towards a wire whose messages have one.
var lNotify = step{mode: codec.Notify}

// answered takes the fate of a message sent to a side, and sends the next of its channel where one waits.
func (r *Relay) answered(now time.Time, e *entry, s *side, l *lane, ev *codec.Event) {
	if ev.Receipt&resendBit != 0 && !r.cared(now, s, ev) {
		return
	}
	channel, overtaken, free := s.order.answered(ev.Receipt)
	if overtaken {
		r.counters.Overtaken++
	}
	for free && s.takes() {
		m := s.order.next(channel)
		if m == nil {
			return
		}
		r.send(now, e, s, l, m)
		free = !s.order.busy(channel)
	}
}

// cared takes the fate of a message that is kept. It reports whether order wants to know of it, and then gives the
// event the receipt that order knows the message by.
func (r *Relay) cared(now time.Time, s *side, ev *codec.Event) bool {
	k := s.kept.of(ev.Receipt)
	if ev.Kind == codec.Lost {
		switch {
		case k.care == careReport:
			r.counters.Lost++
		case k.care == careResend && s.live() && s.conn.Send(now, k.message) == nil:
			r.counters.Resent++
			if k.ordered && k.inner == 0 {
				r.counters.Overtaken++
			}
			return false
		case s.keeps || s.away: // the next server gets it, or purge decides
			s.kept.lose(ev.Receipt)
			return false
		default:
			r.counters.Lost++
		}
	}
	inner := k.inner
	s.kept.forget(ev.Receipt)
	ev.Receipt = inner
	return inner != 0
}

// purge gives up messages that a server has lost which is still there itself: some wires give up after many attempts.
func (r *Relay) purge(now time.Time, e *entry, s *side, l *lane) {
	for _, receipt := range s.kept.receipts(func(k *keptMessage) bool { return k.lost }) {
		s.kept.of(receipt).care = careReport
		r.answered(now, e, s, l, &codec.Event{Kind: codec.Lost, Message: codec.Message{Receipt: receipt}})
	}
}

// unsent handles a message that a side did not take. Delivery is never weakened silently: where the message's promise
// cannot be kept and the route has not allowed that, the session ends.
func (r *Relay) unsent(now time.Time, e *entry, l *lane, m *codec.Message, want codec.Mode, err error) {
	r.drop(now, dropOf(err), e.Value.door, e.Key.Client, len(m.Payload), err)
	if want.IsReliable() && !l.lossy && (errors.Is(err, codec.ErrTooLarge) || errors.Is(err, codec.ErrFull)) {
		r.end(now, e, blameProxy, codec.Goodbye{Reason: codec.Overflow})
	}
}
