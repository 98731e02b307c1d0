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
func (s *samples) serverTally(session *link) *stats.ServerTally {
	if session.server == nil {
		return nil
	}
	return s.of(session.route.Upstream, session.server)
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
func (s *samples) accepted(session *link) {
	if t := s.serverTally(session); t != nil {
		t.Joined++
	}
}

// refused counts that a server has not accepted a new connection. A connection that was accepted before, or that the
// session has closed itself, does not count.
func (s *samples) refused(session *link, why codec.Reason) {
	if !session.isRelayed() && (session.upstream.up || session.life.isEnding()) {
		return
	}
	if t := s.serverTally(session); t != nil {
		t.Refused[why]++
	}
}

// add adds the share of an imported session.
func (s *samples) add(session *link) {
	s.toClients.Queued += int(session.client.sampled.Queued)
	s.toUpstreams.Queued += int(session.upstream.sampled.Queued)
}

// take samples a session whose time has come.
func (s *samples) take(now time.Time, session *link) {
	life := now.Sub(s.born)
	if life < session.sampleDue {
		return
	}
	session.sampleDue = life + stats.SampleEvery
	client, server := s.serverTally(session).Legs()
	if c := &session.client; c.Conn != nil {
		s.toClients.Observe(&c.sampled, c.Conn.Stats(), client)
	}
	if u := &session.upstream; u.Conn != nil {
		s.toUpstreams.Observe(&u.sampled, u.Conn.Stats(), server)
	}
	session.endSearch()
}

// lastOfClient adds the last statistics of the client's side, which has ended.
func (s *samples) lastOfClient(session *link) {
	if c := &session.client; c.Conn != nil {
		leg, _ := s.serverTally(session).Legs()
		s.toClients.Leave(&c.sampled, c.Conn.Stats(), leg)
	}
}

// lastOfServer adds the last statistics of the server's side, which has ended. The session still has the server.
func (s *samples) lastOfServer(session *link) {
	if u := &session.upstream; u.Conn != nil {
		_, leg := s.serverTally(session).Legs()
		s.toUpstreams.Leave(&u.sampled, u.Conn.Stats(), leg)
	}
}

// endSearch lets routers fragment datagrams to the server again, once the search for the path's MTU is over. A
// lasting session is soon sampled, and so reaches this call. A short session may end without it. Then the path is
// unchanged, and the socket suits the next session's search.
func (s *link) endSearch() {
	if s.searches && s.upstream.up {
		s.route.Upstream.Transport.probed(s.socket)
		s.searches = false
	}
}
