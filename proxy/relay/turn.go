package relay

import (
	"time"

	"tidegate/codec"
	"tidegate/proxy/stats"
)

// mostDue bounds the sessions whose deadlines one turn handles. The next turn handles the others.
const mostDue = 1024

// Advance runs due work, and begins another turn.
func (r *Relay) Advance(now time.Time) {
	r.drops.turn = 0
	r.sockets.tap.at(now)
	r.journal.catchUp(now)
	r.drainDue(now)
	r.takeHanded(now)
	askServers(now, r)
	for _, c := range r.checkers {
		c.advance(now, r)
	}
	for range mostDue {
		e := r.table.Due(now)
		if e == nil {
			break
		}
		s := &e.Value
		s.spare(r.stood)
		if s.isRelayed() {
			r.expireRelayed(now, e)
			continue
		}
		due := s.dueSides(now) | s.reflect(now) // before a connection decides whether it shows a sign of life
		if due.has(clientSide) && s.client.Live() {
			r.backlog.Excuse(now, s.client.Conn)
			r.ways.excuse(now, s)
			s.client.Conn.Advance(now)
		}
		if due.has(serverSide) && s.upstream.Live() {
			s.upstream.Conn.Advance(now)
		}
		r.settleSides(now, e, due)
		r.redial(now, e)
		r.abandonSilent(now, e)
		abandonDoubted(now, r, e)
		r.holdDue(now, e)
		r.expire(now, e)
	}
	r.walkOn(now)
	r.attend(now)
	r.closing.advance(now, r)
}

// NextTimeout returns when Advance must be called next. Zero means never.
func (r *Relay) NextTimeout() time.Time {
	next := r.table.NextTimeout()
	if r.draining && !r.farewell {
		next = codec.Earliest(next, r.drainBy)
	}
	for _, c := range r.checkers {
		next = codec.Earliest(next, c.due)
	}
	next = codec.Earliest(next, nextQuestion(r))
	next = codec.Earliest(next, r.closing.due)
	next = codec.Earliest(next, r.walks.due)
	next = codec.Earliest(next, r.waiting.due())
	next = codec.Earliest(next, r.journal.lines.due)
	return codec.Earliest(next, r.paths.blockedUntil())
}

// Sent notes that the datagrams of a turn have left. Paths count them against their pace.
func (r *Relay) Sent(now time.Time) {
	if r.paths.paced() {
		r.paths.sent(now)
	}
}

// Refused returns the number of datagrams that the Relay has dropped in this turn.
func (r *Relay) Refused() int { return r.drops.turn }

// Behind reports whether more datagrams wait than for a Relay that keeps up.
func (r *Relay) Behind() bool { return r.backlog.Behind() }

// nextTimeout returns the earliest of a session's deadlines. It asks the connections of the touched sides.
func nextTimeout(s *link, settings *Settings, touched sides) time.Time {
	next := codec.Earliest(s.expiry(settings), s.dialBy)
	if s.hold != nil {
		next = codec.Earliest(next, s.hold.next)
	}
	s.client.plan(touched.has(clientSide))
	s.upstream.plan(touched.has(serverSide))
	return codec.Earliest(codec.Earliest(next, s.client.due), s.upstream.due)
}

// Flush writes the datagrams that the sessions have to send since the last Flush.
func (r *Relay) Flush(now time.Time) {
	r.sockets.tap.at(now)
	r.sockets.clear(now)
	// A session that is marked meanwhile is appended, and so visited too.
	for i := 0; i < len(r.dirty); i++ {
		e := r.dirty[i]
		r.dirty[i] = nil
		if e.Value.life == gone {
			continue
		}
		touched := e.Value.touched
		e.Value.dirty, e.Value.touched = false, 0
		if touched == bothSides { // a message has crossed
			r.sendJoined(now, e)
		}
		touched |= e.Value.press(now, touched)
		r.sockets.transmit(now, e, touched)
		r.weigh(now, e, touched)
		if r.poll(now, e, touched) {
			r.dirty.mark(e) // the results must be written too
			continue
		}
		if clearAway(r, now, e) {
			continue
		}
		r.samples.take(now, &e.Value)
		next := codec.Earliest(nextTimeout(&e.Value, r.settings, touched), doubtedUntil(r, &e.Value))
		r.table.Schedule(e, now, e.Value.patience(next))
	}
	r.dirty = r.dirty[:0]
}

// expire ends a session whose time is over: first with goodbyes, then at once.
func (r *Relay) expire(now time.Time, e *Entry) {
	s := &e.Value
	if now.Before(s.expiry(r.settings)) {
		return
	}
	if s.life.isEnding() {
		s.client.Down, s.upstream.Down = true, true
		return
	}
	if s.life.isHeld() {
		r.end(now, e, stats.ByUpstream, codec.Goodbye{Reason: codec.ServerStopped})
	} else {
		r.end(now, e, stats.ByProxy, codec.Goodbye{Reason: codec.TimedOut})
	}
	r.settle(now, e)
}
