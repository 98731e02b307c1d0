package relay

import (
	"time"

	"tidegate/codec"
	"tidegate/internal/netio"
	"tidegate/internal/upstream"
	"tidegate/proxy/stats"
)

const (
	// mostAsks bounds the sessions that ask a server at once, since each needs a socket. askPause follows.
	mostAsks = 64
	askPause = 10 * time.Millisecond
	// askTime is how long a held session waits for a server's first answer before another one asks in its place. By then
	// RakNet's client has tried each MTU, and Riptide's has asked four times.
	askTime = 3500 * time.Millisecond
	// streamTime is askTime for TCP, which repeats its first packet after 1 s and then after 3 s.
	streamTime = 2 * time.Second
	// turnTime is how long a server that has answered a session may take to decide. Then the next session in line asks.
	turnTime = 3 * time.Second
)

// attend lets waiting sessions ask a server.
func (r *Relay) attend(now time.Time) {
	due := r.waiting.due()
	r.waiting.attended = now
	if due.IsZero() || now.Before(due) {
		return
	}
	r.waiting.stirred, r.waiting.at = r.pools.Changes(), time.Time{}
	for _, pool := range r.pools.WithQueues() {
		r.muster(now, pool)
		r.giveTurns(now, pool)
	}
	waiting := r.waiting.seekers[:0]
	for _, s := range r.waiting.seekers {
		r.serveHeld(now, s)
		r.serveNew(now, s)
		if s.held.len()+s.new.len() > 0 {
			waiting = append(waiting, s)
		}
	}
	clear(r.waiting.seekers[len(waiting):])
	if r.waiting.seekers = waiting; len(waiting) > 0 || r.waiting.inLine > 0 {
		r.waiting.attendBy(now.Add(attendEvery))
	}
}

// muster holds the sessions of a lost server that have not noticed the loss and must keep their client IDs. It takes
// some turns. Meanwhile the server's queue does not open, and other lost servers wait.
func (r *Relay) muster(now time.Time, pool *upstream.Pool) {
	lost, next := pool.LostServer(now, r.shard.index)
	r.waiting.attendBy(next)
	m := r.waiting.mustering
	switch {
	case m == nil && lost == nil:
		return
	case m == nil:
		m = &mustering{pool: pool, lost: lost}
		r.waiting.mustering = m
		r.walk(now, m.visit, func(now time.Time) { m.end(now, r) })
	case m.pool != pool && lost == nil:
		return
	case m.pool == pool && m.lost != lost:
		m.lost = nil
	}
	r.waiting.attendBy(now)
	if r.waiting.mustering == m && m.pool == pool && m.lost != nil {
		pool.SessionsHeld(lost, now, r.shard.index, false)
	}
}

// visit holds a session of the lost server.
func (m *mustering) visit(r *Relay, now time.Time, e *Entry) int {
	s := &e.Value
	switch {
	case m.lost == nil:
		return enough
	case s.isRelayed() || s.server != m.lost || !s.route.staysWithID(s.protocol) || s.life == seeking || !s.mayHold():
		return looked
	}
	s.upstream.Down = true
	r.upstreamGone(now, e, codec.Goodbye{Reason: codec.TimedOut})
	r.settle(now, e)
	return acted
}

// end notes that all sessions of a lost server have been visited.
func (m *mustering) end(now time.Time, r *Relay) {
	r.waiting.mustering = nil
	r.waiting.attendBy(now)
	if m.lost != nil {
		m.pool.SessionsHeld(m.lost, now, r.shard.index, true)
	}
}

// giveTurns lets the sessions ask whose turn in line has come.
func (r *Relay) giveTurns(now time.Time, pool *upstream.Pool) {
	for range mostAsks {
		t, server := pool.NextTurn(now, r.shard.index)
		if t == nil {
			return
		}
		e := t.Owner.(*Entry)
		if server == nil {
			r.end(now, e, stats.ByUpstream, codec.Goodbye{Reason: codec.ServerStopped})
			r.settle(now, e)
			continue
		}
		if r.ask(now, e, server); e.Value.server == nil {
			pool.Retry(t, now, false)
		}
	}
	r.waiting.attendBy(now.Add(askPause))
}

// serveHeld lets held sessions ask that may get any client ID.
func (r *Relay) serveHeld(now time.Time, s *seekers) {
	for n := 0; ; n++ {
		e := s.held.popIf(isHeld)
		if e == nil {
			return
		}
		if n == mostAsks {
			s.held.back(e)
			r.waiting.attendBy(now.Add(askPause))
			return
		}
		server := s.choose(now, e)
		if server == nil {
			s.held.back(e)
			return
		}
		if r.ask(now, e, server); e.Value.server == nil {
			e.Value.hold.next = now.Add(seekEvery)
		}
	}
}

// ask asks a server to take a held session. If there is no socket, the session has no server afterwards.
func (r *Relay) ask(now time.Time, e *Entry, server *upstream.Server) {
	s := &e.Value
	s.server = server
	s.spare(r.stood)
	if r.reach(now, e) {
		s.hold.next = now.Add(turnTime)
		switch {
		case s.route.Upstream.Transport.Stream:
			s.dialBy = now.Add(streamTime)
		case s.hold.ticket != nil:
			// The connection repeats its attempt as long as its protocol does. A server that is starting reads all attempts
			// later. Attempts from several ports would look like several clients.
			s.dialBy = time.Time{}
		default:
			s.dialBy = now.Add(askTime)
		}
	}
	r.dirty.mark(e)
}

// serveNew lets new sessions ask that have waited for held ones.
func (r *Relay) serveNew(now time.Time, s *seekers) {
	for range mostAsks {
		e := s.new.popIf((*link).needsServer)
		if e == nil || !r.dial(now, e, nil) {
			return // the session waits again
		}
		r.dirty.mark(e)
	}
}

// holdDue runs due work of a held session.
func (r *Relay) holdDue(now time.Time, e *Entry) {
	s := &e.Value
	h := s.hold
	if h == nil || h.next.IsZero() || now.Before(h.next) {
		return
	}
	h.next = time.Time{}
	switch {
	case s.life == moving:
		r.quiesce(now, e)
	case s.life == leaving:
		r.depart(now, e)
	case s.server == nil:
		r.waiting.seek(now, e)
	case h.ticket == nil || !s.upstream.Live():
	case s.upstream.Conn.Stats().Received > 0:
		s.route.pool.Yield(h.ticket)
	default:
		h.next = now.Add(turnTime)
	}
}

// mostRedials bounds how many times a session asks one server again from another address.
const mostRedials = 2

// redial asks a server again that no longer seems to answer the session's address.
func (r *Relay) redial(now time.Time, e *Entry) {
	s := &e.Value
	if s.upstream.up || !s.upstream.Live() || s.life.isEnding() {
		return
	}
	conn, ok := s.upstream.Conn.(codec.Redialer)
	if !ok {
		return
	}
	switch conn.Stranded() {
	case codec.Unanswered:
		ok = r.askFromElsewhere(now, e)
	case codec.TurnedAway:
		r.askFromElsewhere(now, e)
	case codec.KnownByEarlier:
		ok = s.goBack(e)
	default:
		return
	}
	if ok {
		conn.Redial(now, s.socket)
		r.dirty.mark(e)
	}
}

// askFromElsewhere gives a session another socket to its server, and reports whether it could. A session that uses
// the client's own address has no other address.
func (r *Relay) askFromElsewhere(now time.Time, e *Entry) bool {
	s := &e.Value
	if s.earlier == nil {
		s.earlier = new(earlier)
	}
	was := s.earlier
	if s.route.Upstream.Transport.Transparent || was.back || len(was.sockets) == mostRedials {
		return false
	}
	socket, err := s.route.Upstream.dial(r.sockets.Sockets, s.path, s.server.Addr, e.Key.Client)
	if err != nil {
		r.drops.count(now, dropped{stats.DropSocket, s.listener, s.server.Addr, 0, err})
		return false
	}
	if len(was.sockets) == 0 {
		was.preamble = s.preamble
	}
	was.sockets = append(was.sockets, s.socket)
	s.socket.SetOwner(nil)
	s.preamble = newPreamble(s.route.Upstream.Headers, e.Key.Client, s.face.Addr())
	s.take(e, socket)
	r.counters.Redialed++
	return true
}

// goBack gives a session its first socket again, if it has one. The server knows the session by that socket's
// address.
func (s *link) goBack(e *Entry) bool {
	was := s.earlier
	if was == nil || len(was.sockets) == 0 || was.back {
		return false
	}
	s.socket.Close()
	s.take(e, was.sockets[0])
	s.preamble, was.sockets, was.back = was.preamble, was.sockets[1:], true
	return true
}

func (s *link) take(e *Entry, socket netio.Socket) {
	socket.SetOwner(e)
	s.socket, s.refused = socket, 0
}
