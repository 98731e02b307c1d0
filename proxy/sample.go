package proxy

import (
	"time"

	"tidegate/proxy/stats"
)

// samples are the figures of a Relay's connections.
type samples struct {
	born                   time.Time // when the Relay was made
	toClients, toUpstreams stats.Samples
}

// sampleSide adds a side's statistics to samples.
func sampleSide(to *stats.Samples, s *side) {
	if s.Conn != nil {
		to.Observe(&s.sampled, s.Conn.Stats())
	}
}

// sampleLast adds the last statistics of a side that has ended.
func sampleLast(from *stats.Samples, s *side) {
	if s.Conn != nil {
		from.Leave(&s.sampled, s.Conn.Stats())
	}
}

// sample samples a session whose time has come.
func (s *samples) sample(now time.Time, p *session) {
	if life := now.Sub(s.born); life >= p.sampleDue {
		p.sampleDue = life + stats.SampleEvery
		sampleSide(&s.toClients, &p.client)
		sampleSide(&s.toUpstreams, &p.upstream)
		p.endSearch()
	}
}

// endSearch lets routers fragment datagrams to the server again, once the search for the path's MTU is over. A
// lasting session is soon sampled, and so reaches this call. A short session may end without it. Then the path is
// unchanged, and the socket suits the next session's search.
func (p *session) endSearch() {
	if p.searches && p.upstream.up {
		p.route.Upstream.Transport.probed(p.socket)
		p.searches = false
	}
}
