package relay

import (
	"net/netip"
	"time"

	"tidegate/codec"
	"tidegate/internal/filter"
	"tidegate/internal/netio"
	"tidegate/internal/policy"
	"tidegate/proxy/relay/admission"
	"tidegate/proxy/stats"
	"tidegate/ratelimit"
	"tidegate/session"
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

// patience protects a half-open session whose client has proved its address from new clients with proof. It is longer
// than an honest handshake with a server that answers.
const patience = 3 * time.Second

// youth protects a half-open session whose client has not proved its address from new clients without proof. It
// applies while only half-open places are short. Such clients repeat themselves, and find places when the burst of
// handshakes is over.
const youth = time.Second

// room reports why there is no place for a new client, or nil. When all places are taken, a half-open session makes
// room.
func (t sessionTable) room(now time.Time, from netip.AddrPort, proved bool) error {
	full := t.Room(from.Addr())
	if t.victim(now, full, from.Addr(), proved) != nil {
		return nil
	}
	return full
}

// victim returns the session that makes room for a new client, or nil. full is why the table has no room. The victim
// is the oldest session without proof of address. If there is none, a new client with proof takes the place of the
// oldest half-open session that is older than patience. An address that has too many sessions gets the place of its
// oldest relayed question that the server has answered. Established sessions are safe.
func (t sessionTable) victim(now time.Time, full error, from netip.Addr, proved bool) *Entry {
	if full == session.ErrAddress || full == session.ErrAddressFull {
		return t.Spare(from)
	}
	if full != session.ErrHalfOpen && full != session.ErrFull {
		return nil
	}
	if e := t.Eldest(false); e != nil {
		if !proved && full == session.ErrHalfOpen && e.Value.since(now)-e.Value.opened < youth {
			return nil
		}
		return e
	}
	if e := t.Eldest(true); e != nil && proved && e.Value.since(now)-e.Value.opened >= patience {
		return e
	}
	return nil
}

// evict ends a half-open session at once. It says goodbye to both sides, and does not wait for answers.
func (r *Relay) evict(now time.Time, e *Entry) {
	s := &e.Value
	r.counters.Evicted++
	if s.isRelayed() {
		r.endRelayed(now, e, stats.ByProxy, codec.ServerFull)
		return
	}
	r.end(now, e, stats.ByProxy, codec.Goodbye{Reason: codec.ServerFull})
	r.sockets.transmit(now, e, bothSides)
	s.client.Down, s.upstream.Down = true, true
	r.forget(now, e)
}

// outcome is the result of a new client's datagram.
type outcome uint8

const (
	turnedAway outcome = iota
	mayRepeat          // there is no place at present, and the client was not told so
	taken              // there is a session now
)

// add adds a session to the table. If necessary, a half-open session makes room. A session without a terminated part
// is relayed.
func (r *Relay) add(now time.Time, l *listener, entry *protocolEntry, s netio.Socket, from netip.AddrPort,
	t *terminated) (*Entry, error) {
	proved := t != nil && entry.proof == codec.ProvedAccept
	if e := r.table.victim(now, r.table.Room(from.Addr()), from.Addr(), proved); e != nil {
		r.evict(now, e)
	}
	e, err := r.table.Add(session.Key{Listener: l.index, Client: from}, link{
		listener: l, route: l.route, protocol: entry.protocol, face: s, via: l.via(nil), serial: r.serials.next(),
		tally: entry.tally, opened: now.Sub(r.born), heard: now.Sub(r.born), spared: r.stood, terminated: t,
	})
	if err != nil {
		return nil, err
	}
	l.sessions++
	r.counters.Opened++
	entry.tally.Opened++
	r.guard.Enroll(&e.Value.meter, from.Addr())
	return e, nil
}

// mustWait drops the datagram of a new client without proof if there will be a place soon. It notes that the client
// has asked.
func (r *Relay) mustWait(now time.Time, l *listener, from netip.AddrPort, size int, full error) bool {
	if full == nil {
		return false
	}
	reason, why := l.whyFull(r.draining, full)
	if reason != codec.ReasonNone {
		return false
	}
	r.guard.Asked(now, from)
	r.drops.add(now, dropped{why, l, from, size, full})
	return true
}

// refuse refuses a new client in its protocol. It returns false for a datagram that has no refusal, because it does
// not ask for a session. Most clients take a refusal as final. So refuse sends none where only half-open places are
// short. Such places are soon free again, and clients repeat themselves.
func (r *Relay) refuse(
	now time.Time, l *listener, entry *protocolEntry, s netio.Socket, from netip.AddrPort, datagram []byte, full error,
) (refused bool, out outcome) {
	reason, why := l.whyFull(r.draining, full)
	said := reason
	if said == codec.ReasonNone {
		said = codec.ServerFull
	}
	reply := entry.protocol.Refuse(datagram, r.sockets.Buffer(), said)
	if len(reply) == 0 {
		return false, turnedAway
	}
	r.drops.add(now, dropped{why, l, from, len(datagram), full})
	if reason == codec.ReasonNone {
		return true, mayRepeat
	}
	r.sockets.answer(now, l, s, from, datagram, reply)
	return true, turnedAway
}

// whyFull returns the refusal of a new client without a place in the table, and the reason to drop its datagram.
// ReasonNone means that there will be a place soon, and no refusal.
func (l *listener) whyFull(draining bool, full error) (codec.Reason, stats.Drop) {
	switch {
	case draining, l.retired:
		return codec.ServerStopped, stats.DropClosing
	case full == session.ErrHalfOpen:
		return codec.ReasonNone, stats.DropHalfOpen
	case full == session.ErrAddress, full == session.ErrNetwork:
		return codec.ReasonNone, stats.DropHalfOpenSource
	case full == session.ErrAddressFull, full == session.ErrNetworkFull:
		return codec.ServerFull, stats.DropSourceFull
	}
	return codec.ServerFull, stats.DropTableFull
}
