package relay

import (
	"time"

	"tidegate/codec"
	"tidegate/proxy/stats"
)

// end says goodbye to each side that is still connected. The first reason given is the session's.
func (r *Relay) end(now time.Time, e *Entry, blame stats.Party, why codec.Goodbye) {
	p := &e.Value
	limit := lingerTime
	if r.farewell {
		limit = r.settings.DrainTimeout
	}
	if last := now.Add(limit); !p.isEnding() {
		p.expires, p.why, p.blame = last, why.Reason, blame
		r.enter(now, e, p.life.ended())
	} else if last.Before(p.expires) {
		p.expires = last
	}
	r.sendJoined(now, e)
	if p.client.Live() {
		p.client.Conn.Close(now, toClient(why, p.origin != noID))
	}
	if p.upstream.Live() {
		p.upstream.Conn.Close(now, toServer(why, blame))
	}
	r.dirty.mark(e)
}

// toServer returns the goodbye for a server: the client has left. It includes the data of the client's own goodbye,
// for protocols that carry it (ENet). A refusal or a kick by the proxy does not concern the server.
func toServer(why codec.Goodbye, blame stats.Party) codec.Goodbye {
	left := codec.Goodbye{Reason: codec.Closed}
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
		case codec.Kicked, codec.ServerStopped:
		case codec.NoConnection, codec.TimedOut, codec.TransportError, codec.PoorConnection:
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

// expiry returns when a session is given up if its client stays silent. It does not depend on the session's
// connections.
func (p *session) expiry(s *Settings) time.Time {
	switch {
	case p.isRelayed() && p.life == opening && !p.listens():
		return p.opened.Add(s.HandshakeTimeout)
	case !p.isRelayed() && (p.isEnding() || !p.client.up || !p.upstream.up):
		return p.expires
	}
	return p.heard.Add(idleOf(p.protocol, s.IdleTimeout))
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
	p := &e.Value
	r.journal.ended(now, e, p.blame, p.why)
	r.remove(now, e, p.blame, p.why)
}

// remove removes a session from the table, and counts its end.
func (r *Relay) remove(now time.Time, e *Entry, blame stats.Party, why codec.Reason) {
	p := &e.Value
	r.abnormal.tell(now, e, blame, why)
	delete(r.watches, p.serial)
	hasJoined, isKnown := p.life.hasJoined(), p.isKnown()
	r.enter(now, e, gone)
	p.hangUp()
	if p.face = p.home(); p.face != p.listener.socket { // a stream, or a socket made by part
		p.face.Close()
	}
	if isKnown {
		r.known.remove(p.listener, e.Key.Client)
	}
	delete(r.journal.causes, p.serial)
	r.counters.Closed++
	p.tally.End(blame, why, hasJoined)
	r.retired.left(p.listener)
	r.guard.discharge(&p.meter, e.Key.Client.Addr())
	r.table.Remove(e)
}

// endRelayed forgets a session. It tells neither side, since no goodbye is common to all protocols.
func (r *Relay) endRelayed(now time.Time, e *Entry, blame stats.Party, why codec.Reason) {
	p := &e.Value
	r.offload.recall(e) // counts what the kernel has forwarded
	switch {
	case p.life == joined:
		r.journal.ended(now, e, blame, why)
	case !p.answered && p.server != nil: // bounded, since clients may be forged
		r.drops.count(now, dropped{stats.DropUnanswered, p.listener, p.server.Addr, 0, nil})
	}
	r.remove(now, e, blame, why)
}

// hangUp releases the session's server, its socket and its path.
func (p *session) hangUp() {
	if p.server != nil {
		p.route.pool.Release(p.server)
	}
	if p.socket != nil {
		p.socket.Close()
	}
	p.path.leave()
	p.server, p.socket, p.path = nil, nil, nil
	if !p.isRelayed() {
		p.forgetEarlier()
		p.waits = false
	}
}

// forgetEarlier closes the sockets that a session no longer needs.
func (p *session) forgetEarlier() {
	if p.earlier == nil {
		return
	}
	for _, s := range p.earlier.sockets {
		s.Close()
	}
	p.earlier = nil
}
