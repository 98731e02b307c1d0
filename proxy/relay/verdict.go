package relay

import (
	"time"

	"tidegate/codec"
	"tidegate/internal/filter"
	"tidegate/proxy/stats"
	"tidegate/ratelimit"
)

// weigh counts the memory of a session, and applies its limits.
func (r *Relay) weigh(now time.Time, e *Entry, touched sides) {
	s := &e.Value
	held, queued := s.memory(touched)
	if before := int(s.holding.bytes); held != before {
		r.held.set(e, held)
		if held > before {
			r.relieve(now, e)
		}
	}
	r.judgeQueue(now, e, queued)
}

// relieve ends sessions until no bound on held memory is exceeded.
func (r *Relay) relieve(now time.Time, e *Entry) {
	for victim, why := r.held.excess(e); victim != nil; victim, why = r.held.excess(e) {
		session := &victim.Value
		r.drops.count(now, dropped{stats.DropHeldBytes, session.listener, victim.Key.Client, int(session.holding.bytes), why})
		session.hello.Data = nil
		for _, s := range [...]*side{&session.client, &session.upstream} {
			if h, ok := s.Conn.(codec.Holder); ok {
				h.Release()
			}
		}
		r.held.set(victim, 0)
		r.end(now, victim, stats.ByProxy, codec.Goodbye{Reason: codec.Violation})
	}
}

// judgeQueue counts the bytes that wait in a session, and applies the limits on them. A limit over several sessions
// only applies to sessions with more than their share of it. So each session that grows beyond the limit is at fault.
func (r *Relay) judgeQueue(now time.Time, e *Entry, queued int) {
	rules := r.guard.limits.queues
	if len(rules) == 0 {
		return
	}
	s := &e.Value
	r.guard.count(&s.meter, queued-s.meter.own.queued)
	s.choked = false
	if queued == 0 || s.isEnding() {
		return
	}
	for _, l := range rules {
		n := r.guard.at(&s.meter, l.Per)
		if n.queued <= l.Rate.PerSecond || queued*n.sessions <= l.Rate.PerSecond || !r.guard.breaks(l) {
			continue
		}
		if l.Verdict == ratelimit.Drop {
			s.choked = true
			continue
		}
		r.drops.count(now, dropped{stats.DropQueueFull, s.listener, e.Key.Client, queued, l.why})
		if l.Verdict == ratelimit.BanSource {
			r.banSource(now, e, l.String())
		} else {
			r.end(now, e, stats.ByProxy, codec.Goodbye{Reason: codec.Overflow})
		}
		return
	}
}

// accepted judges a client's datagram that its connection has accepted. A datagram over a limit ends the session.
func (r *Relay) accepted(now time.Time, e *Entry, size int) {
	if l := r.guard.exceeded(now, r.guard.limits.accepted, &e.Value.meter, size); l != nil {
		r.drops.add(now, dropped{stats.DropRate, e.Value.listener, e.Key.Client, size, l.why})
		r.applyVerdict(now, e, l.Verdict, l.String())
		return
	}
	r.guard.spentBy(e, r.guard.limits.datagrams, size)
	r.guard.spentBy(e, r.guard.limits.accepted, size)
}

// mayCross judges a message from one side of a session, before it goes to the other side. The bytes of head begin it
// on the wire.
func (r *Relay) mayCross(now time.Time, e *Entry, from filter.Direction, m *codec.Message, head []byte) bool {
	s := &e.Value
	if !r.maySay(now, e, from, m, head) {
		return false
	}
	if s.choked {
		r.drops.count(now, dropped{stats.DropQueueFull, s.listener, e.Key.Client, len(m.Payload), nil})
		if m.Mode.IsReliable() && !s.route.Bridge.AllowLossy {
			r.end(now, e, stats.ByProxy, codec.Goodbye{Reason: codec.Overflow})
		}
		return false
	}
	if from != filter.FromClient || !m.Mode.IsReliable() {
		return true
	}
	l := r.guard.exceeded(now, r.guard.limits.messages, &s.meter, len(m.Payload))
	if l == nil {
		r.guard.spentBy(e, r.guard.limits.messages, len(m.Payload))
		return true
	}
	r.drops.count(now, dropped{stats.DropRate, s.listener, e.Key.Client, len(m.Payload), l.why})
	return r.applyVerdict(now, e, l.Verdict, l.String())
}

// maySay applies the rules about messages to a message. It carries out the verdict on the session.
func (r *Relay) maySay(now time.Time, e *Entry, from filter.Direction, m *codec.Message, head []byte) bool {
	f := &r.guard.filters
	if !f.set.Judges(from) {
		return true
	}
	s := &e.Value
	speaks := s.protocol
	if from == filter.FromUpstream {
		speaks = s.route.Upstream.Protocol
	}
	said := filter.Said{From: from, Listener: s.listener.name, Protocol: speaks.Spec().Name, Message: m, Head: head}
	match := f.set.Message(now, &said, &s.rates)
	fault := f.messages.note(match)
	if match.Verdict < ratelimit.Drop {
		return true
	}
	r.drops.count(now, dropped{stats.DropMessageRule, s.listener, e.Key.Client, len(m.Payload), fault})
	return r.applyVerdict(now, e, match.Verdict, fault.Error())
}

// applyVerdict applies a verdict to a session. It reports whether the judged message or datagram may go on.
func (r *Relay) applyVerdict(now time.Time, e *Entry, v ratelimit.Verdict, why string) bool {
	switch v {
	case ratelimit.Disconnect:
		r.journal.because(e, why)
		r.end(now, e, stats.ByProxy, codec.Goodbye{Reason: codec.Kicked})
	case ratelimit.BanSource:
		r.banSource(now, e, why)
	}
	return v < ratelimit.Drop
}

// banSource ends a session. It bans the address only if the client has proved it. Otherwise an attacker could get a
// forged address banned.
func (r *Relay) banSource(now time.Time, e *Entry, why string) {
	s := &e.Value
	reason := codec.Kicked
	r.journal.because(e, why)
	if s.proved() && s.client.up && s.upstream.up {
		ban := r.guard.bans.Offend(now, e.Key.Client.Addr(), why)
		r.journal.banned(now, e, &ban)
		reason = codec.Banned
	}
	r.end(now, e, stats.ByProxy, codec.Goodbye{Reason: reason})
}
