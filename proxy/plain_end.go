package proxy

import (
	"time"

	"tidegate/codec"
	"tidegate/proxy/stats"
)

// expiry is when a session is given up if its client says nothing more.
func (p *plain) expiry(s *Settings) time.Time {
	if p.established {
		return p.heard.Add(idleOf(p.protocol, s.IdleTimeout))
	}
	return p.opened.Add(s.HandshakeTimeout)
}

// expirePlain ends a session whose time is over, or has it looked at again.
func (r *Relay) expirePlain(now time.Time, e *plainEntry) {
	r.review(now, e)
	if at := e.Value.expiry(r.settings); now.Before(at) {
		r.plains.Schedule(e, now, at)
		return
	}
	r.endPlain(now, e, stats.ByProxy, codec.TimedOut)
}

// failedPlain takes the news that nobody listens at a session's server. While the server has said nothing, another is
// tried: the client repeats its first datagram. Later the session ends once it is believed, and the client's next first
// datagram finds a server that lives.
func (r *Relay) failedPlain(now time.Time, e *plainEntry) {
	p := &e.Value
	r.review(now, e)
	p.refused++
	switch {
	case p.answered && p.refused < refusals:
		return
	case !p.answered:
		failed := p.server
		p.route.pool.Failed(failed, now, now, codec.NoConnection.String())
		if int(p.tries) < p.route.mostTries() {
			r.hangUpPlain(p)
			if r.dialPlain(now, e, failed) {
				return
			}
		}
	}
	r.endPlain(now, e, stats.ByUpstream, codec.NoConnection)
}

// endBannedPlains ends the sessions whose clients have been banned since they came.
func (r *Relay) endBannedPlains(now time.Time) {
	for e := range r.plains.All {
		if r.guard.bans.Find(now, e.Key.Client.Addr()) != nil {
			r.endPlain(now, e, stats.ByProxy, codec.Banned)
		}
	}
}

// hangUpPlain leaves the server and its socket.
func (r *Relay) hangUpPlain(p *plain) {
	if p.server != nil {
		p.route.pool.Release(p.server)
	}
	if p.socket != nil {
		p.socket.Close()
	}
	p.path.leave()
	p.server, p.socket, p.path = nil, nil, nil
}

// endPlain forgets a session. Nobody is told: there are no words that every protocol has.
func (r *Relay) endPlain(now time.Time, e *plainEntry, blame stats.Party, why codec.Reason) {
	p := &e.Value
	r.slow(e)
	switch {
	case p.established:
		r.unknow(p.door, e.Key.Client)
		r.journal.plainEnded(now, e, blame, why)
	case !p.answered && p.server != nil: // bounded: clients may be forged
		r.drop(now, stats.DropUnanswered, p.door, p.server.Addr, 0, nil)
	}
	r.hangUpPlain(p)
	if p.face != p.door.socket { // parted
		p.face.Close()
	}
	r.counters.Closed++
	p.tally.End(blame, why, p.established)
	r.left(p.door)
	r.discharge(&p.meter, e.Key.Client.Addr())
	r.plains.Remove(e)
}
