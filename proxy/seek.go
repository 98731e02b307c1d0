package proxy

import (
	"net/netip"
	"time"

	"tidegate/codec"
	"tidegate/internal/upstream"
	"tidegate/proxy/stats"
)

const (
	// attendEvery is how often a Relay looks for servers for its waiting sessions.
	attendEvery = 50 * time.Millisecond
	// mostAsks bounds the sessions that ask a server at once, since each needs a socket. askPause follows.
	mostAsks = 64
	askPause = 10 * time.Millisecond
	// mostMustered bounds the sessions of a lost server that are held at once.
	mostMustered = 256
	// askTime is how long a held session waits for a server's first answer before another one asks in its place. By then
	// RakNet's client has tried each MTU, and Riptide's has asked four times.
	askTime = 3500 * time.Millisecond
	// streamTime is askTime for TCP, which repeats its first packet after 1 s and then after 3 s.
	streamTime = 2 * time.Second
	// turnTime is how long a server that has answered a session may take to decide. Then the next session in line asks.
	turnTime = 3 * time.Second
)

// seekers are a Relay's sessions that wait for a server of one upstream. Held sessions that must keep their client
// IDs wait in the Pool's lines instead.
type seekers struct {
	pool *upstream.Pool
	held line // sessions that have lost their server
	new  line // sessions that have had no server yet
}

// waiting has a Relay's sessions that wait for servers, and the time when attend lets them ask.
type waiting struct {
	shard    shard
	dirty    *marked
	pools    *upstream.Pools
	seekers  []*seekers // by upstream
	inLine   int        // sessions that wait in a line of their upstream
	stirred  uint64     // pools.Changes at the last attend
	at       time.Time  // when attend is due
	attended time.Time  // when attend was called last
}

// of returns the seekers of a Pool.
func (w *waiting) of(pool *upstream.Pool) *seekers {
	for _, s := range w.seekers {
		if s.pool == pool {
			return s
		}
	}
	s := &seekers{pool: pool}
	w.seekers = append(w.seekers, s)
	return s
}

// seek makes a session that has left its server wait for another.
func (w *waiting) seek(now time.Time, e *entry) {
	p := &e.Value
	p.hold.phase, p.hold.next = seeking, time.Time{}
	if p.hold.ticket != nil {
		p.route.pool.Ready(p.hold.ticket)
	} else {
		w.of(p.route.pool).held.push(e)
	}
	w.at = now
	w.dirty.mark(e)
}

// await makes a new session wait for a server, after the held sessions.
func (w *waiting) await(now time.Time, e *entry) {
	w.of(e.Value.route.pool).new.push(e)
	w.attendBy(now.Add(attendEvery))
	w.dirty.mark(e)
}

// attendBy makes attend due at a time, or earlier.
func (w *waiting) attendBy(at time.Time) { w.at = codec.Earliest(w.at, at) }

// due returns when attend is due; zero means never.
func (w *waiting) due() time.Time {
	if w.pools.Changes() != w.stirred {
		return w.attended
	}
	return w.at
}

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

// muster holds the sessions of lost servers that have not noticed the loss and must keep their client IDs.
func (r *Relay) muster(now time.Time, pool *upstream.Pool) {
	for {
		lost, next := pool.LostServer(now, r.shard.index)
		r.waiting.attendBy(next)
		if lost == nil {
			return
		}
		all := r.musterAll(now, lost)
		pool.SessionsHeld(lost, now, r.shard.index, all)
		if !all {
			r.waiting.at = now
			return
		}
	}
}

// musterAll holds sessions of a lost server, and reports whether it held all of them.
func (r *Relay) musterAll(now time.Time, lost *upstream.Server) bool {
	n := 0
	for e := range r.table.All {
		p := &e.Value
		if p.isRelayed() || p.server != lost || !p.keepsID() || p.hold != nil && p.hold.phase == seeking || !p.mayHold() {
			continue
		}
		if n++; n > mostMustered {
			return false
		}
		p.upstream.Down = true
		r.upstreamGone(now, e, codec.Goodbye{Reason: codec.TimedOut})
		r.settle(now, e)
	}
	return true
}

// giveTurns lets the sessions ask whose turn in line has come.
func (r *Relay) giveTurns(now time.Time, pool *upstream.Pool) {
	for range mostAsks {
		t, server := pool.NextTurn(now, r.shard.index)
		if t == nil {
			return
		}
		e := t.Owner.(*entry)
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

// choose picks the server that a held session asks, or returns nil.
func (s *seekers) choose(now time.Time, e *entry) (server *upstream.Server) {
	h := e.Value.hold
	if h.to.IsValid() {
		server = s.pool.Take(h.to)
		h.to = netip.AddrPort{}
	}
	if server == nil {
		server = s.pool.PickForHeld(now, e.Key.Client.Addr())
	}
	return server
}

// isHeld reports whether a session still waits in a seekers' line.
func isHeld(p *session) bool {
	return p.hold != nil && p.hold.phase == seeking && p.hold.next.IsZero() && p.server == nil && !p.forgotten
}

// ask asks a server to take a held session. If there is no socket, the session has no server afterwards.
func (r *Relay) ask(now time.Time, e *entry, server *upstream.Server) {
	p := &e.Value
	p.server = server
	if r.reach(now, e) {
		p.hold.next = now.Add(turnTime)
		switch {
		case p.route.Upstream.Transport.Stream:
			p.dialBy = now.Add(streamTime)
		case p.hold.ticket != nil:
			// The connection repeats its attempt as long as its protocol does. A server that is starting reads all attempts
			// later. Attempts from several ports would look like several clients.
			p.dialBy = time.Time{}
		default:
			p.dialBy = now.Add(askTime)
		}
	}
	r.dirty.mark(e)
}

// serveNew lets new sessions ask that have waited for held ones.
func (r *Relay) serveNew(now time.Time, s *seekers) {
	for range mostAsks {
		e := s.new.popIf(isNew)
		if e == nil || !r.dial(now, e, nil) {
			return // the session waits again
		}
		r.dirty.mark(e)
	}
}

// isNew reports whether a new session still waits in a seekers' line.
func isNew(p *session) bool {
	return p.hold == nil && p.upstream.Conn == nil && p.client.Live() && !p.ending && !p.forgotten
}
