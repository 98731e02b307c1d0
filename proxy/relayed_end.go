package proxy

import (
	"time"

	"tidegate/codec"
	"tidegate/proxy/stats"
)

// expireRelayed ends a session whose time is over, or schedules the next look at it.
func (r *Relay) expireRelayed(now time.Time, e *entry) {
	r.offload.review(now, e)
	if at := e.Value.expiry(r.settings); now.Before(at) {
		r.table.Schedule(e, now, at)
		return
	}
	r.endRelayed(now, e, stats.ByProxy, codec.TimedOut)
}

// refusedRelayed handles the news that no process listens at a session's server. While the server has not answered,
// the Relay tries another: the client repeats its first datagram. Later, several such reports end the session. Then
// the client's next first datagram finds a live server.
func (r *Relay) refusedRelayed(now time.Time, e *entry) {
	p := &e.Value
	r.offload.review(now, e)
	p.refused++
	switch {
	case p.answered && p.refused < refusals:
		return
	case !p.answered:
		failed := p.server
		p.route.pool.Failed(failed, now, now, codec.NoConnection.String())
		if int(p.tries) < p.route.mostTries() {
			p.hangUp()
			if r.dialRelayed(now, e, failed) {
				return
			}
		}
	}
	r.endRelayed(now, e, stats.ByUpstream, codec.NoConnection)
}

// endRelayed forgets a session. It tells neither side, since no goodbye is common to all protocols.
func (r *Relay) endRelayed(now time.Time, e *entry, blame stats.Party, why codec.Reason) {
	p := &e.Value
	r.offload.recall(e)
	switch {
	case p.established:
		r.journal.ended(now, e, blame, why)
	case !p.answered && p.server != nil: // bounded, since clients may be forged
		r.drops.add(now, dropped{stats.DropUnanswered, p.listener, p.server.Addr, 0, nil})
	}
	r.remove(now, e, blame, why)
}
