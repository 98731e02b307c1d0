package relay

import (
	"cmp"
	"time"

	"tidegate/codec"
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

// toClient returns the goodbye for a client. A client that was not admitted gets a refusal. Another one gets an end
// that every protocol can express.
func toClient(why codec.Goodbye, admitted bool) codec.Goodbye {
	reason := why.Reason
	if admitted {
		switch reason {
		case codec.Kicked, codec.ServerStopped, codec.PoorConnection:
		case codec.NoConnection, codec.TimedOut, codec.TransportError:
			reason = codec.ServerStopped
		default:
			reason = codec.Kicked
		}
	} else {
		switch reason {
		case codec.TimedOut, codec.TransportError, codec.PoorConnection, codec.ServerStopped, codec.Violation:
			reason = codec.NoConnection
		case codec.Closed, codec.Kicked, codec.Overflow:
			reason = codec.Rejected
			if len(why.Data) > 0 {
				reason = codec.RejectedCustom
			}
		}
	}
	why.Reason = reason
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
		return s.opened.Add(settings.HandshakeTimeout)
	case !s.isRelayed() && (s.life.isEnding() || !s.client.up || !s.upstream.up):
		return s.expires
	case s.edge != nil && s.edge.closes:
		return s.heard.Add(edgeClose)
	}
	return s.heard.Add(idleOf(s.protocol, cmp.Or(s.listener.idle, settings.IdleTimeout)))
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
		s.edge.judgeEnd(why)
	}
	switch {
	case s.life == joined:
		r.journal.ended(now, e, blame, why)
	case !s.answered && s.server != nil: // bounded, since clients may be forged
		if why == codec.TimedOut || why == codec.NoConnection {
			s.route.pool.TurnedAway(s.server, now, s.opened, why.String(), false)
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
