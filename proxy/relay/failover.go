package relay

import (
	"time"

	"tidegate/codec"
	"tidegate/proxy/stats"
)

// seekEvery is how soon a held session looks for a server again after one has failed it.
const seekEvery = 250 * time.Millisecond

// deafTime is how long all other sessions must have heard nothing from a server whose session has timed out.
const deafTime = 3 * time.Second

// newsTime is how long it may take until all loops have read a server's last datagrams.
const newsTime = 100 * time.Millisecond

// mayHold reports whether a session is held when its server is lost.
func (s *link) mayHold() bool {
	return s.route.Failover.Hold > 0 && s.life.hasJoined() && !s.life.isEnding() && s.client.Live()
}

// lose begins to hold a session whose server is lost. It reports whether it does.
func (r *Relay) lose(now time.Time, e *Entry, why codec.Reason) bool {
	s := &e.Value
	if !s.mayHold() || !s.route.Failover.isLoss(why) {
		return false
	}
	r.counters.Held++
	r.journal.held(e, why)
	r.hold(now, e, seeking, hold{until: now.Add(s.route.Failover.Hold)})
	s.blameServer(now, why)
	r.leaveServer(now, s)
	r.waiting.seek(now, e)
	return true
}

// turnedAway counts a server that has not accepted a new connection. Its host's refusals are not its own words.
func (r *Relay) turnedAway(now time.Time, s *link, why codec.Reason) {
	r.samples.refused(s, why)
	if s.upstream.up || s.life.isEnding() || s.server == nil || s.life.isHeld() {
		return
	}
	spoke := why != codec.NoConnection && why != codec.TimedOut && why != codec.TransportError
	s.route.pool.TurnedAway(s.server, now, r.born.Add(s.askedAt), why.String(), spoke)
}

// blameServer tells the other sessions of a server that one session has lost it.
func (s *link) blameServer(now time.Time, why codec.Reason) {
	pool := s.route.pool
	switch why {
	case codec.ServerStopped, codec.TransportError:
		pool.Failed(s.server, now, now, why.String())
		pool.Suspect(s.server, now, now.Add(newsTime))
	case codec.PoorConnection: // the server or this session's path is at fault
		pool.Suspect(s.server, now, now.Add(newsTime))
	case codec.NoConnection, codec.TimedOut:
		pool.Failed(s.server, now, now.Add(-deafTime), why.String())
		pool.Suspect(s.server, now, now.Add(-deafTime))
	}
}

// doubtServer tells the other sessions that a player has left a silent server. The player may have lost patience.
func (s *link) doubtServer(now time.Time) {
	if server, ok := s.upstream.Conn.(codec.Reflector); ok && s.isSteady() && server.IsSilent(now) {
		s.route.pool.Doubt(s.server, now, codec.TimedOut.String())
		s.blameServer(now, codec.TimedOut)
	}
}

// leaveServer forgets the connection to a server, and keeps the messages that wait for the next one.
func (r *Relay) leaveServer(now time.Time, s *link) {
	s.announceDepartures(now)
	s.expires, s.dialBy = s.hold.until, time.Time{}
	r.samples.lastOfServer(s)
	s.hangUp()
	r.carrier.Leave(&s.upstream.Sender)
	s.upstream = side{Sender: s.upstream.Sender}
}

// unwelcome handles the end of a connection that was opened for a held session.
func (r *Relay) unwelcome(now time.Time, e *Entry, why codec.Goodbye) {
	s := &e.Value
	blamed := false
	switch why.Reason {
	case codec.Rejected, codec.RejectedCustom, codec.Banned, codec.InvalidPassword, codec.Incompatible:
		r.end(now, e, stats.ByUpstream, why) // another server or a later attempt would not change that
		return
	case codec.NoConnection, codec.TimedOut, codec.TransportError:
		blamed = s.route.pool.Failed(s.server, now, r.born.Add(s.askedAt), why.Reason.String())
	}
	r.leaveServer(now, s)
	if t := s.hold.ticket; t != nil {
		s.route.pool.Retry(t, now, !blamed)
		r.waiting.attendBy(now.Add(attendEvery))
	} else {
		s.hold.next = now.Add(seekEvery)
	}
	r.dirty.mark(e)
}

// misfit leaves a server that offers a session another client ID than its own.
func (r *Relay) misfit(now time.Time, e *Entry, offered uint16) {
	s := &e.Value
	wait := s.route.pool.OfferedID(s.hold.ticket, offered)
	s.upstream.Conn.Close(now, codec.Goodbye{Reason: codec.Closed})
	r.closing.add(now, e, r)
	r.leaveServer(now, s)
	if !wait {
		r.end(now, e, stats.ByUpstream, codec.Goodbye{Reason: codec.ServerStopped})
	}
}

// regain resumes a held session at the server that has taken it. client is the server's ID for the client.
func (r *Relay) regain(now time.Time, e *Entry, client uint16) {
	s := &e.Value
	if s.hold.ticket != nil && client != s.id {
		r.misfit(now, e, client)
		return
	}
	if c, ok := s.upstream.Conn.(codec.Confirmer); ok {
		c.Confirm(now)
	}
	held := now.Sub(s.hold.since)
	r.enter(now, e, joined)
	s.heard = now
	if resetter, ok := s.client.Conn.(codec.WorldResetter); ok {
		resetter.ResetWorld(now)
	}
	r.counters.Regained++
	r.journal.regained(e, held, client)
	r.carrier.Resume(now, &s.upstream.Sender, &s.bridge.ToServer)
	r.carried(now, e)
}

// announceDepartures tells a client that the other clients have left, since their server is lost.
func (s *link) announceDepartures(now time.Time) {
	for _, client := range s.knownClients {
		_ = s.client.Conn.Announce(now, codec.Left, client) // a protocol without such announcements needs none
	}
	s.knownClients = nil
}

// abandonSilent gives up a server that has been silent for its share of the time. A session that had no way to a
// server asks again.
func (r *Relay) abandonSilent(now time.Time, e *Entry) {
	s := &e.Value
	if s.dialBy.IsZero() || now.Before(s.dialBy) {
		return
	}
	s.dialBy = time.Time{}
	if s.needsServer() {
		r.dial(now, e, nil)
		r.dirty.mark(e)
		return
	}
	if s.upstream.Live() && !s.upstream.up && s.upstream.Conn.Stats().Received == 0 {
		r.abandonUpstream(now, e)
	}
}
