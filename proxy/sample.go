package proxy

import "time"

// sampleEvery is how often a session's figures are looked at, while it has anything to say.
const sampleEvery = 5 * time.Second

// Samples are figures of one side of all sessions. Each session is looked at every few seconds and at its end, so that
// nobody ever has to walk all sessions.
type Samples struct {
	RTT    Histogram // of sessions whose round trip is known
	Queued int       // bytes of messages to the side that wait to be sent or acknowledged
	Resent uint64    // transmissions of messages to the side beyond their first
	Lost   uint64    // messages or datagrams to the side known not to have arrived the first time
}

// sampled is what Samples have of one side of a session.
type sampled struct{ queued, resent, lost uint32 } // of the counts, the low bits: a look is never far from the next

// observe adds what has changed since the last look.
func (s *Samples) observe(of *side) {
	if of.conn == nil {
		return
	}
	stats := of.conn.Stats()
	if stats.RTT > 0 {
		s.RTT.observe(stats.RTT)
	}
	s.take(of, sampled{uint32(stats.Queued), uint32(stats.Resent), uint32(stats.Lost)})
}

// leave samples a side that is over.
func (s *Samples) leave(of *side) {
	if of.conn != nil {
		stats := of.conn.Stats()
		s.take(of, sampled{0, uint32(stats.Resent), uint32(stats.Lost)})
	}
}

func (s *Samples) take(of *side, now sampled) {
	s.Queued += int(now.queued) - int(of.sampled.queued)
	s.Resent += uint64(now.resent - of.sampled.resent)
	s.Lost += uint64(now.lost - of.sampled.lost)
	of.sampled = now
}

func (s *Samples) add(o *Samples) {
	s.RTT.add(&o.RTT)
	s.Queued += o.Queued
	s.Resent += o.Resent
	s.Lost += o.Lost
}

// sample looks at a session that is due for it.
func (r *Relay) sample(now time.Time, p *pair) {
	if life := now.Sub(r.born); life >= p.sampleDue {
		p.sampleDue = life + sampleEvery
		r.toClients.observe(&p.client)
		r.toUpstreams.observe(&p.upstream)
		p.endSearch()
	}
}

// endSearch lets routers fragment what goes to the server, if the search for the path's MTU is over. A session that lasts is soon
// looked at; of one that does not, the path has not changed, and its socket is as the next one's search wants it.
func (p *pair) endSearch() {
	if p.searches && p.upstream.up {
		p.route.Upstream.Transport.probed(p.socket)
		p.searches = false
	}
}
