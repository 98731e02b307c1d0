package relay

import (
	"time"

	"tidegate/codec"
	"tidegate/internal/filter"
	"tidegate/internal/policy"
	"tidegate/proxy/relay/admission"
	"tidegate/proxy/stats"
	"tidegate/ratelimit"
)

// weigh counts the memory of a session, and applies its limits.
func (r *Relay) weigh(now time.Time, e *Entry, touched sides) {
	s := &e.Value
	held, queued := s.memory(touched)
	if before := s.holding.Bytes(); held != before {
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
		r.drops.count(now, dropped{stats.DropHeldBytes, session.listener, victim.Key.Client, session.holding.Bytes(), why})
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

// judgeQueue counts the bytes that wait in a session, and applies the limits on them.
func (r *Relay) judgeQueue(now time.Time, e *Entry, queued int) {
	s := &e.Value
	if !r.guard.Queued(&s.meter, queued) {
		return
	}
	s.choked = false
	if queued == 0 || s.life.isEnding() {
		return
	}
	var broken *admission.Rule
	if s.choked, broken = r.guard.Overflow(&s.meter); broken == nil {
		return
	}
	r.drops.count(now, dropped{stats.DropQueueFull, s.listener, e.Key.Client, queued, broken.Why})
	if broken.Verdict == ratelimit.BanSource {
		r.banSource(now, e, broken.String())
	} else {
		r.end(now, e, stats.ByProxy, codec.Goodbye{Reason: codec.Overflow})
	}
}

// accepted judges a client's datagram that its connection has accepted. A datagram over a limit ends the session.
func (r *Relay) accepted(now time.Time, e *Entry, size int) {
	if l := r.guard.Accepted(now, &e.Value.meter, size); l != nil {
		r.drops.add(now, dropped{stats.DropRate, e.Value.listener, e.Key.Client, size, l.Why})
		r.applyVerdict(now, e, l.Verdict, l.String())
		return
	}
	if r.shares(&e.Value) {
		r.guard.SpentDatagram(e.Key.Client.Addr(), size)
	}
}

// shares reports whether other nodes of the fleet hear of a session's use of limits.
func (r *Relay) shares(s *link) bool { return r.guard.Shares() && s.proved() }

// mayCross judges a message from one side of a session, before it goes to the other side. The bytes of head begin it
// on the wire.
func (r *Relay) mayCross(now time.Time, e *Entry, from policy.Direction, m *codec.Message, head []byte) bool {
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
	if from != policy.FromClient || !m.Mode.IsReliable() {
		return true
	}
	l := r.guard.Said(now, &s.meter, len(m.Payload))
	if l == nil {
		if r.shares(s) {
			r.guard.SpentMessage(e.Key.Client.Addr(), len(m.Payload))
		}
		return true
	}
	r.drops.count(now, dropped{stats.DropRate, s.listener, e.Key.Client, len(m.Payload), l.Why})
	return r.applyVerdict(now, e, l.Verdict, l.String())
}

// maySay applies the rules about messages to a message. It carries out the verdict on the session.
func (r *Relay) maySay(now time.Time, e *Entry, from policy.Direction, m *codec.Message, head []byte) bool {
	if !r.guard.Judges(from) {
		return true
	}
	s := &e.Value
	speaks := s.protocol
	if from == policy.FromUpstream {
		speaks = s.route.Upstream.Protocol
	}
	said := filter.Said{From: from, Listener: s.listener.name, Protocol: speaks.Spec().Name, Message: m, Head: head}
	verdict, cause := r.guard.Message(now, &said, &s.rates)
	if verdict < ratelimit.Drop {
		return true
	}
	r.drops.count(now, dropped{stats.DropMessageRule, s.listener, e.Key.Client, len(m.Payload), cause})
	return r.applyVerdict(now, e, verdict, cause.Error())
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
		ban := r.guard.Bans.Offend(now, e.Key.Client.Addr(), why)
		r.journal.banned(now, e, &ban)
		reason = codec.Banned
	}
	r.end(now, e, stats.ByProxy, codec.Goodbye{Reason: reason})
}
