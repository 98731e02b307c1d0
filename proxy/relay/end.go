package relay

import (
	"cmp"
	"time"

	"tidegate/codec"
	"tidegate/internal/filter"
	"tidegate/proxy/stats"
)

// end says goodbye to each side that is still connected. The first reason given is the session's.
func (r *Relay) end(now time.Time, e *Entry, blame stats.Party, why codec.Goodbye) {
	s := &e.Value
	why.Lost = blame == stats.ByUpstream && s.life == joined &&
		(why.Reason == codec.TimedOut || why.Reason == codec.TransportError)
	limit := lingerTime
	if r.farewell {
		limit = r.settings.DrainTimeout
	}
	if last := now.Add(limit); !s.life.isEnding() {
		s.expires, s.why, s.blame = last, why.Reason, blame
		r.enter(now, e, s.life.ended())
	} else if last.Before(s.expires) {
		s.expires = last
	}
	r.sendJoined(now, e)
	if blame == stats.ByUpstream && why.Reason == codec.Closed && s.origin != noID && s.route.speaks.Spec().KicksNone {
		why.Reason = codec.ServerStopped
	}
	if s.client.Live() {
		s.client.Conn.Close(now, toClient(why, s.origin != noID))
	}
	if s.upstream.Live() {
		s.upstream.Conn.Close(now, toServer(why, blame))
	}
	r.dirty.mark(e)
}

// toServer returns the goodbye for a server: the client has left. It includes the data of the client's own goodbye,
// for protocols that carry it (ENet). A refusal or a kick by the proxy does not concern the server.
func toServer(why codec.Goodbye, blame stats.Party) codec.Goodbye {
	left := codec.Goodbye{Reason: codec.Closed, Deaf: why.Deaf}
	if blame == stats.ByClient {
		left.Data, left.Pad = why.Data, why.Pad
	}
	return left
}

// toClient returns the goodbye for a client: a refusal before its admission, then an end that any protocol has.
func toClient(why codec.Goodbye, admitted bool) codec.Goodbye {
	if admitted {
		switch why.Reason {
		case codec.Kicked, codec.ServerStopped, codec.PoorConnection:
		case codec.NoConnection, codec.TimedOut, codec.TransportError:
			why.Reason = codec.ServerStopped
		default:
			why.Reason = codec.Kicked
		}
		return why
	}
	switch why.Reason {
	case codec.TimedOut, codec.TransportError, codec.PoorConnection, codec.ServerStopped, codec.Violation:
		why.Reason = codec.NoConnection
	case codec.Closed, codec.Kicked, codec.Overflow:
		why.Reason = codec.Rejected
		if len(why.Data) > 0 {
			why.Reason = codec.RejectedCustom
		}
	}
	return why
}

// listening is a number of datagrams from the server: a client that has spoken once, and got so many, seems to be told
// a game and not only answered.
const listening = 32

// expiry returns when a session is given up if its client stays silent. It does not depend on the session's
// connections.
func (s *link) expiry(settings *Settings) time.Time {
	switch {
	case s.isRelayed() && s.life == opening && s.fromServer.Messages < listening:
		return s.at(s.opened + settings.HandshakeTimeout)
	case !s.isRelayed() && (s.life.isEnding() || !s.client.up || !s.upstream.up):
		return s.expires
	case s.edge != nil && s.edge.closes:
		return s.at(s.heard + edgeClose)
	}
	return s.at(s.heard + idleOf(s.protocol, cmp.Or(s.listener.idle, settings.IdleTimeout)))
}

// idleOf returns how long a client of a protocol may be silent. A protocol with a longer timeout of its own gets that
// and one second. So its connection ends the session first, and knows the reason.
func idleOf(p codec.Protocol, idle time.Duration) time.Duration {
	if silent := p.Spec().IdleTimeout; silent > 0 {
		return max(idle, silent+time.Second)
	}
	return idle
}

// forget removes a terminated session whose sides have ended.
func (r *Relay) forget(now time.Time, e *Entry) {
	s := &e.Value
	r.journal.ended(now, e, s.blame, s.why)
	r.remove(now, e, s.blame, s.why)
}

// remove removes a session from the table, and counts its end.
func (r *Relay) remove(now time.Time, e *Entry, blame stats.Party, why codec.Reason) {
	s := &e.Value
	r.abnormal.tell(now, e, blame, why)
	delete(r.watches, s.serial)
	hasJoined, isKnown := s.life.hasJoined(), s.isKnown()
	s.route.modules.ended(now, s)
	r.enter(now, e, gone)
	s.hangUp()
	if s.face = s.home(); s.face != s.listener.socket { // a stream, or a socket made by part
		s.face.Close()
	}
	if isKnown {
		r.known.remove(s.listener, e.Key.Client)
	}
	delete(r.journal.causes, s.serial)
	r.counters.Closed++
	s.tally.End(blame, why, hasJoined)
	r.retired.left(s.listener)
	r.guard.Discharge(&s.meter, e.Key.Client.Addr())
	r.table.Remove(e)
}

// endRelayed forgets a session. It tells neither side, since no goodbye is common to all protocols.
func (r *Relay) endRelayed(now time.Time, e *Entry, blame stats.Party, why codec.Reason) {
	s := &e.Value
	r.offload.recall(e) // counts what the kernel has forwarded
	if s.edge != nil {
		s.edge.why = why
	}
	switch {
	case s.life == joined:
		r.journal.ended(now, e, blame, why)
	case !s.answered && s.server != nil: // bounded, since clients may be forged
		if why == codec.TimedOut || why == codec.NoConnection {
			s.route.pool.TurnedAway(s.server, now, s.at(s.opened), why.String(), false)
		}
		r.drops.count(now, dropped{stats.DropUnanswered, s.listener, s.server.Addr, 0, nil})
	}
	r.remove(now, e, blame, why)
}

// hangUp releases the session's server, its socket and its path.
func (s *link) hangUp() {
	if s.server != nil {
		s.route.pool.Release(s.server)
	}
	if s.socket != nil {
		s.socket.Close()
	}
	s.path.leave()
	s.server, s.socket, s.path = nil, nil, nil
	if !s.isRelayed() {
		s.forgetEarlier()
		s.call.abandon()
		s.call, s.waits = nil, false
	}
}

// forgetEarlier closes the sockets that a session no longer needs.
func (s *link) forgetEarlier() {
	if s.earlier == nil {
		return
	}
	for _, socket := range s.earlier.sockets {
		socket.Close()
	}
	s.earlier = nil
}

// DrainBy refuses all new clients. Sessions may go on until they end, or until the given time. Then they get a
// goodbye. A second call can only choose an earlier time.
func (r *Relay) DrainBy(now, at time.Time) {
	if !r.draining || at.Before(r.drainBy) {
		r.draining, r.leaving, r.drainBy = true, false, at
	}
	r.drainDue(now)
}

// Drain refuses all new clients, and says goodbye to every client and upstream. Drained reports when that is done.
func (r *Relay) Drain(now time.Time) { r.DrainBy(now, now) }

// drainDue says goodbye to all sessions when the time has come, over some turns.
func (r *Relay) drainDue(now time.Time) {
	if !r.draining || r.farewell || now.Before(r.drainBy) {
		return
	}
	r.farewell = true
	r.journal.settle(now)
	r.pingers, r.queriers = nil, nil
	closeCheckers(now, r)
	r.walk(now, func(r *Relay, now time.Time, e *Entry) int {
		r.dismiss(now, e, codec.Goodbye{Reason: codec.ServerStopped})
		return acted
	}, nil)
}

// Draining reports whether the Relay refuses new clients.
func (r *Relay) Draining() bool { return r.draining }

// Leaving reports whether the Relay was asked to Leave.
func (r *Relay) Leaving() bool { return r.leaving }

// Drained reports whether the Relay drains and has no session left. A session leaves when its goodbyes are finished
// or given up.
func (r *Relay) Drained() bool { return r.draining && !r.leaving && r.table.Len() == 0 }

// dismiss ends a terminated or relayed session. The client learns why, where its protocol can say it.
func (r *Relay) dismiss(now time.Time, e *Entry, why codec.Goodbye) {
	if e.Value.isRelayed() {
		r.endRelayed(now, e, stats.ByProxy, why.Reason)
		return
	}
	r.end(now, e, stats.ByProxy, why)
	r.settle(now, e)
}

// EnforceBans ends the sessions of clients that were banned after they joined, over some turns.
func (r *Relay) EnforceBans(now time.Time) { r.bansEnforced.begin(r, now, enforceBan) }

// enforceBan is the visit for EnforceBans.
func enforceBan(r *Relay, now time.Time, e *Entry) int {
	if e.Value.life.isEnding() {
		return looked
	}
	ban := r.guard.Bans.Find(now, e.Key.Client.Addr())
	if ban == nil {
		return looked
	}
	r.journal.becauseBanned(e, ban.Prefix)
	r.dismiss(now, e, codec.Goodbye{Reason: codec.Banned})
	return acted
}

// filter replaces the rules.
func (r *Relay) filter(now time.Time, set *filter.Set) {
	if r.guard.SetRules(set) {
		r.rulesEnforced.begin(r, now, enforceRules)
	}
}

// enforceRules is the visit for SetRules.
func enforceRules(r *Relay, now time.Time, e *Entry) int {
	if e.Value.life.isEnding() {
		return looked
	}
	rule, isRefused := r.guard.RefusedBy(e.Value.listener.name, e.Key.Client.Addr())
	if !isRefused {
		return looked
	}
	r.journal.because(e, "rule "+rule)
	r.dismiss(now, e, codec.Goodbye{Reason: codec.Banned})
	return acted
}
