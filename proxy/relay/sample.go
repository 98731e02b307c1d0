package relay

import (
	"net/netip"
	"time"

	"tidegate/codec"
	"tidegate/internal/upstream"
	"tidegate/proxy/stats"
)

// samples are the figures of a Relay's connections.
type samples struct {
	born                   time.Time // when the Relay was made
	toClients, toUpstreams stats.Samples
	tallies                stats.Tallies
}

// serverTally returns the tally of a session's server. It returns nil while no server is chosen.
func (s *samples) serverTally(p *session) *stats.ServerTally {
	if p.server == nil {
		return nil
	}
	return s.of(p.route.Upstream, p.server)
}

// of returns the tally of a server. Servers that discovery has found share one, because their addresses change without
// end.
func (s *samples) of(u *Upstream, server *upstream.Server) *stats.ServerTally {
	if !server.IsConfigured() {
		return s.tallies.ServerOf(u.Name, netip.AddrPort{})
	}
	return s.tallies.ServerOf(u.Name, server.Addr)
}

// accepted counts that a server has accepted a new connection.
func (s *samples) accepted(p *session) {
	if t := s.serverTally(p); t != nil {
		t.Joined++
	}
}

// refused counts that a server has not accepted a new connection. A connection that was accepted before, or that the
// session has closed itself, does not count.
func (s *samples) refused(p *session, why codec.Reason) {
	if !p.isRelayed() && (p.upstream.up || p.isEnding()) {
		return
	}
	if t := s.serverTally(p); t != nil {
		t.Refused[why]++
	}
}

// add adds the share of an imported session.
func (s *samples) add(p *session) {
	s.toClients.Queued += int(p.client.sampled.Queued)
	s.toUpstreams.Queued += int(p.upstream.sampled.Queued)
}

// take samples a session whose time has come.
func (s *samples) take(now time.Time, p *session) {
	life := now.Sub(s.born)
	if life < p.sampleDue {
		return
	}
	p.sampleDue = life + stats.SampleEvery
	client, server := s.serverTally(p).Legs()
	if c := &p.client; c.Conn != nil {
		s.toClients.Observe(&c.sampled, c.Conn.Stats(), client)
	}
	if u := &p.upstream; u.Conn != nil {
		s.toUpstreams.Observe(&u.sampled, u.Conn.Stats(), server)
	}
	p.endSearch()
}

// lastOfClient adds the last statistics of the client's side, which has ended.
func (s *samples) lastOfClient(p *session) {
	if c := &p.client; c.Conn != nil {
		leg, _ := s.serverTally(p).Legs()
		s.toClients.Leave(&c.sampled, c.Conn.Stats(), leg)
	}
}

// lastOfServer adds the last statistics of the server's side, which has ended. The session still has the server.
func (s *samples) lastOfServer(p *session) {
	if u := &p.upstream; u.Conn != nil {
		_, leg := s.serverTally(p).Legs()
		s.toUpstreams.Leave(&u.sampled, u.Conn.Stats(), leg)
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
