package proxy

import (
	"time"

	"tidegate/proxy/stats"
)

// samples are the figures of the connections of a Relay.
type samples struct {
	born                   time.Time // of the Relay
	toClients, toUpstreams stats.Samples
}

// sampleSide adds a side's statistics to samples.
func sampleSide(to *stats.Samples, s *side) {
	if s.Conn != nil {
		to.Observe(&s.sampled, s.Conn.Stats())
	}
}

// sampleLast adds the last statistics of a side that is over.
func sampleLast(from *stats.Samples, s *side) {
	if s.Conn != nil {
		from.Leave(&s.sampled, s.Conn.Stats())
	}
}

// sample looks at a session that is due for it.
func (s *samples) sample(now time.Time, p *session) {
	if life := now.Sub(s.born); life >= p.sampleDue {
		p.sampleDue = life + stats.SampleEvery
		sampleSide(&s.toClients, &p.client)
		sampleSide(&s.toUpstreams, &p.upstream)
		p.endSearch()
	}
}

// endSearch lets routers fragment what goes to the server, if the search for the path's MTU is over. A session that
// lasts is soon looked at; of one that does not, the path has not changed, and its socket is as the next one's search
// wants it.
func (p *session) endSearch() {
	if p.searches && p.upstream.up {
		p.route.Upstream.Transport.probed(p.socket)
		p.searches = false
	}
}
