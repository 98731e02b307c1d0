package relay

import "time"

// enter makes a session begin a state. It ends everything that belongs to the old state, and marks the session as
// changed, so that no upgrade hands over an earlier copy. A state that cannot follow is a fault of the Relay: it is
// logged, and the session stays as it is.
func (r *Relay) enter(now time.Time, e *Entry, next life) {
	s := &e.Value
	last := s.life
	if !last.leadsTo(next) {
		r.journal.astray(e, last, next)
		return
	}
	s.life, s.copied = next, 0
	if last.isHeld() && !next.isHeld() {
		r.waiting.endHold(s)
	}
	switch next {
	case joined:
		if last.isJoining() {
			s.tally.Establish(s.since(now) - s.opened)
		}
	case moving:
		s.upstream.Away = true
	case refusing, ending:
		s.dialBy = time.Time{}
	case gone:
		r.releaseAll(now, e)
		return
	}
	if !s.isRelayed() {
		r.dirty.mark(e)
	}
}

// hold begins to hold a session.
func (r *Relay) hold(now time.Time, e *Entry, next life, h hold) {
	s := &e.Value
	if !s.life.leadsTo(next) {
		r.journal.astray(e, s.life, next)
		return
	}
	h.since = now
	s.hold, s.expires = &h, h.until
	r.enter(now, e, next)
	r.waiting.queue(e)
}

// releaseAll releases what a session has in the Relay's tables.
func (r *Relay) releaseAll(now time.Time, e *Entry) {
	s := &e.Value
	if s.edge != nil {
		stage, why := s.joinEnding(r.journal.causes[s.serial])
		s.listener.joins.forget(now, e, stage, why)
	}
	if s.isRelayed() {
		r.offload.recall(e)
		return
	}
	if s.origin == ownID {
		s.route.ids.free(s.id)
	}
	if s.isPending() {
		r.presence.drop(presenceKey{s.listener.name, s.pending.identity}, s.serial)
		return
	}
	r.presence.remove(s)
	r.held.set(e, 0)
	r.samples.lastOfClient(s)
	r.samples.lastOfServer(s)
}
