package proxy

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
	r.journal.catchUp(now)
	r.drainDue(now)
	for _, p := range r.pingers {
		p.advance(now, r)
	}
	for _, c := range r.checkers {
		c.advance(now, r)
	}
	for n := 0; n < mostDue; n++ {
		e := r.table.Due(now)
		if e == nil {
			break
		}
		p := &e.Value
		if p.isRelayed() {
			r.expireRelayed(now, e)
			continue
		}
		if p.client.Live() {
			r.backlog.excuse(now, p.client.Conn)
			p.client.Conn.Advance(now)
		}
		if p.upstream.Live() {
			p.upstream.Conn.Advance(now)
		}
		r.settle(now, e)
		r.redial(now, e)
		r.abandonSilent(now, e)
		r.holdDue(now, e)
		r.expire(now, e)
	}
	r.walkOn(now)
	r.attend(now)
	r.closing.advance(now, r)
}

// Stood notes that the process stood still for d. Servers had no chance to answer in that time, and clients no chance
// to finish a handshake. So the time does not count against them.
func (r *Relay) Stood(d time.Duration) {
	r.journal.log.Warn().Int64("for_ms", d.Milliseconds()).Msg("the process stood still")
	for e := range r.table.All {
		p := &e.Value
		if p.isRelayed() {
			if !p.established {
				p.opened = p.opened.Add(d)
			}
			continue
		}
		if !p.dialBy.IsZero() {
			p.dialBy = p.dialBy.Add(d)
		}
		if !p.established && !p.ending {
			p.expires = p.expires.Add(d)
		}
	}
	for _, c := range r.checkers {
		c.stood(d)
	}
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
	for _, p := range r.pingers {
		next = codec.Earliest(next, p.due)
	}
	next = codec.Earliest(next, r.closing.due)
	next = codec.Earliest(next, r.walks.due)
	next = codec.Earliest(next, r.waiting.due())
	next = codec.Earliest(next, r.journal.lines.due)
	return codec.Earliest(next, r.paths.blockedUntil())
}

// nextTimeout returns the earliest of a session's deadlines.
func nextTimeout(p *session, settings *Settings) time.Time {
	next := codec.Earliest(p.expiry(settings), p.dialBy)
	if p.hold != nil {
		next = codec.Earliest(next, p.hold.next)
	}
	for _, s := range [...]*side{&p.client, &p.upstream} {
		if s.Live() {
			next = codec.Earliest(next, s.Conn.NextTimeout())
		}
	}
	return next
}

// Flush writes the datagrams that the sessions have to send since the last Flush.
func (r *Relay) Flush(now time.Time) {
	r.sockets.clear(now)
	// A session that is marked meanwhile is appended, and so visited too.
	for i := 0; i < len(r.dirty); i++ {
		e := r.dirty[i]
		r.dirty[i] = nil
		if e.Value.forgotten {
			continue
		}
		e.Value.dirty = false
		r.sendJoined(now, e)
		e.Value.press(now)
		r.sockets.transmit(now, e)
		r.judgeQueue(now, e)
		if r.poll(now, e) {
			r.dirty.mark(e) // the results must be written too
			continue
		}
		if e.Value.over() && !e.Value.waits {
			r.forget(now, e)
			continue
		}
		r.samples.sample(now, &e.Value)
		r.table.Schedule(e, now, e.Value.patience(nextTimeout(&e.Value, r.settings)))
	}
	r.dirty = r.dirty[:0]
}

// expire ends a session whose time is over: first with goodbyes, then at once.
func (r *Relay) expire(now time.Time, e *entry) {
	p := &e.Value
	if now.Before(p.expiry(r.settings)) {
		return
	}
	if p.ending {
		p.client.Down, p.upstream.Down = true, true
		return
	}
	if p.hold != nil {
		r.end(now, e, stats.ByUpstream, codec.Goodbye{Reason: codec.ServerStopped})
	} else {
		r.end(now, e, stats.ByProxy, codec.Goodbye{Reason: codec.TimedOut})
	}
	r.settle(now, e)
}
