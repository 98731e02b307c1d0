package relay

import (
	"errors"
	"time"

	"tidegate/codec"
	"tidegate/internal/netio"
	"tidegate/internal/policy"
	"tidegate/internal/upstream"
	"tidegate/proxy/bridge"
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
	for _, other := range s.knownClients { // they have left with the server
		_ = s.client.Conn.Announce(now, codec.Left, other) // a protocol without such announcements needs none
	}
	s.knownClients = nil
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
	s.heard = s.since(now)
	if resetter, ok := s.client.Conn.(codec.WorldResetter); ok {
		resetter.ResetWorld(now)
	}
	r.counters.Regained++
	r.journal.regained(e, held, client)
	r.carrier.Resume(now, &s.upstream.Sender, &s.bridge.ToServer)
	r.carried(now, e)
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

// refusals is how many times in a row, over at least refusedTime, the host of an established session's server must
// report a closed port. Then the Relay believes it. A firewall or a network that is set up again refuses for a moment,
// and its players play on.
//
// A server that was started again in less time is silent to players that it does not know. So refusals also count
// once nothing else came for doubtTime.
const (
	refusals    = 3
	refusedTime = time.Second
	doubtTime   = 2500 * time.Millisecond
)

// believes notes that a session's server cannot be reached, and reports whether the server counts as lost. A missing
// route is no sign: it is often back in a moment. Silence decides then, as it does for a client without a proxy. age is
// the time since the Relay's start.
func (s *link) believes(age time.Duration, err error) bool {
	if errors.Is(err, netio.ErrUnreachable) {
		return false
	}
	s.copied = 0
	if s.refused == 0 {
		s.refusedFrom = age
	}
	s.refused = min(s.refused+1, refusals)
	return s.refused == refusals && age-s.refusedFrom >= refusedTime
}

// doubtedUntil returns when a session gives up a server that has refused datagrams and is silent since; zero: never.
func doubtedUntil(r *Relay, s *link) time.Time {
	if s.refused < refusals || !s.upstream.up || !s.upstream.Live() || s.life.isEnding() {
		return time.Time{}
	}
	return r.born.Add(s.refusedFrom + doubtTime)
}

// abandonDoubted gives up a server that has refused datagrams and is silent since.
func abandonDoubted(now time.Time, r *Relay, e *Entry) {
	if at := doubtedUntil(r, &e.Value); !at.IsZero() && !now.Before(at) && e.Value.upstream.Live() {
		r.abandonUpstream(now, e)
	}
}

// refused handles the news that the server of a terminated session cannot be reached. A client that joins is sent to
// another server. If there is none, the connection goes on asking, as a client without a proxy does.
func refused(now time.Time, r *Relay, e *Entry, err error) {
	s := &e.Value
	if !s.upstream.Live() {
		return
	}
	s.path.refuse()
	believed, stream := s.believes(now.Sub(r.born), err), s.route.Upstream.Transport.Stream
	switch {
	case s.upstream.up:
		believed = believed || stream
	case s.life.isHeld() || s.life.isEnding() || s.route.mayTry(s.tries):
		believed = true
	default:
		believed = false
		s.route.pool.Failed(s.server, now, r.born.Add(s.askedAt), upstream.Refused)
		if stream {
			postpone(now, r, e)
		}
	}
	if believed {
		r.abandonUpstream(now, e)
	} else if s.refused == refusals {
		r.dirty.mark(e) // doubtedUntil is a deadline now
	}
}

// postpone leaves a server that refuses a joining client's stream. The session asks again in a moment.
func postpone(now time.Time, r *Relay, e *Entry) {
	s := &e.Value
	r.samples.refused(s, codec.TransportError)
	r.samples.lastOfServer(s)
	s.wait(now)
	r.dirty.mark(e)
}

// wait leaves the server, and has the session ask again in a moment.
func (s *link) wait(now time.Time) {
	s.hangUp()
	s.upstream = side{Sender: bridge.Sender{Keeps: s.upstream.Keeps}}
	s.dialBy = now.Add(seekEvery)
}

const (
	// quiesceTime is how long the old server may take to acknowledge the messages sent to it.
	quiesceTime = 2 * time.Second
	// tickTime is how long a game server may take to answer a message.
	tickTime = 100 * time.Millisecond
	// chatTime is how long a session waits for a pause of a server that sends all the time.
	chatTime = 500 * time.Millisecond
	// closeTime is how long a server may take to acknowledge the goodbye, in addition to the round trip.
	closeTime = 250 * time.Millisecond
)

// quiesce says goodbye to the old server once it has acknowledged and answered all messages. A game answers in its
// next tick, which is later than the acknowledgement of its library.
func (r *Relay) quiesce(now time.Time, e *Entry) {
	s := &e.Value
	l := &s.hold.departure
	stats := s.upstream.Conn.Stats()
	leaveAt := l.limit
	if stats.Queued == 0 {
		if l.acked.IsZero() {
			l.acked, l.limit = now, codec.Earliest(l.limit, now.Add(stats.RTT+chatTime))
		}
		leaveAt = l.acked
		if l.heard.After(leaveAt) {
			leaveAt = l.heard
		}
		leaveAt = codec.Earliest(leaveAt.Add(stats.RTT+tickTime), l.limit)
	}
	if now.Before(leaveAt) {
		s.hold.next = leaveAt
		return
	}
	s.upstream.Conn.Close(now, codec.Goodbye{Reason: codec.Closed})
	s.hold.next = now.Add(stats.RTT + closeTime)
	r.enter(now, e, leaving)
	r.settle(now, e)
}

// depart makes a session that has left its server seek another. The client gets the old server's messages until
// another server has taken the session.
func (r *Relay) depart(now time.Time, e *Entry) {
	s := &e.Value
	r.closing.add(now, e, r)
	r.leaveServer(now, s)
	r.enter(now, e, seeking)
	r.waiting.seek(now, e)
}

// add takes over the socket and the closed connection of a session to its server.
func (ps *closingConns) add(now time.Time, e *Entry, r *Relay) {
	s := &e.Value
	x := &closingConn{
		conn: s.upstream.Conn, socket: s.socket, of: e, preamble: s.preamble,
		until: now.Add(lingerTime), over: s.upstream.Down,
	}
	s.socket = nil // it belongs to x now
	x.flush(now, r)
	if x.over || len(ps.list) == maxClosing {
		x.socket.Close()
		return
	}
	x.socket.SetOwner(x)
	ps.list = append(ps.list, x)
	ps.plan(x)
}

// receive handles a datagram of a server that a session has left.
func (ps *closingConns) receive(now time.Time, x *closingConn, datagram []byte, r *Relay) {
	if err := x.conn.Receive(now, x.preamble.heard(datagram)); err == nil {
		r.drops.has(stats.FateTaken)
	} else {
		l := x.of.Value.listener
		r.drops.add(now, dropped{stats.DropOf(err), l, x.socket.Peer(), len(datagram), err})
	}
	if x.flush(now, r); x.over {
		ps.due = now // its socket is free after this turn
		return
	}
	ps.plan(x)
}

// advance runs due work, and forgets connections that have ended.
func (ps *closingConns) advance(now time.Time, r *Relay) {
	if ps.due.IsZero() || now.Before(ps.due) {
		return
	}
	ps.due = time.Time{}
	left := ps.list[:0]
	for _, x := range ps.list {
		if !x.over {
			x.conn.Advance(now)
			x.flush(now, r)
		}
		if x.over || !now.Before(x.until) {
			x.socket.Close()
			continue
		}
		left = append(left, x)
		ps.plan(x)
	}
	clear(ps.list[len(left):])
	ps.list = left
}

// flush handles the connection's events and writes its datagrams.
func (x *closingConn) flush(now time.Time, r *Relay) {
	r.sockets.sendAll(now, x.conn, x.preamble, x.socket, x.socket.Peer())
	for ev, ok := x.conn.Poll(); ok; ev, ok = x.conn.Poll() {
		switch ev.Kind {
		case codec.Received:
			x.hand(now, r, &ev.Message)
		case codec.Disconnected:
			x.over = true
		}
	}
}

// hand carries a message of the old server to the client, unless another server has taken the session. So the client
// gets it before all messages of the next server.
func (x *closingConn) hand(now time.Time, r *Relay, m *codec.Message) {
	s := &x.of.Value
	x.late += len(m.Payload)
	if s.life != seeking || x.late > maxLate {
		r.drops.count(now, dropped{stats.DropClosing, s.listener, x.of.Key.Client, len(m.Payload), nil})
		return
	}
	r.received(now, x.of, policy.FromUpstream, m)
	r.dirty.mark(x.of)
}
