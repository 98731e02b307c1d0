package admin

import (
	"fmt"
	"net/http"
	"net/netip"

	"tidegate/proxy/relay"
	"tidegate/proxy/stats"
)

// Transfer is the request body of a session's transfer.
type Transfer struct {
	Server string `json:"server,omitempty"` // ip:port of a server of the session's upstream; empty: any other
}

func (s *Server) transferSession(r *http.Request, to Transfer) (out nothing, err error) {
	q := new(relay.MoveSession)
	if to.Server != "" {
		if q.To, err = parseServer(to.Server); err != nil {
			return out, err
		}
	}
	if err := s.askAbout(r, &q.ID, q); err != nil {
		return out, err
	}
	s.action(r).Stringer("session", q.ID).Str("server", to.Server).Msg("session moved by an operator")
	return nothing{}, nil
}

// Moved is the number of sessions that are being moved.
type Moved struct {
	Sessions int `json:"sessions"`
}

func (s *Server) transferServer(r *http.Request, of ServerOf) (Moved, error) {
	name := r.PathValue("name")
	server, err := parseServer(of.Server)
	if err != nil {
		return Moved{}, err
	}
	n, err := s.Proxy.TransferServer(r.Context(), name, server)
	if err != nil {
		return Moved{}, fmt.Errorf("upstream %s, server %s: %w", name, server, err)
	}
	s.action(r).Str("upstream", name).Stringer("server", server).Int("sessions", n).
		Msg("server's sessions moved by an operator")
	return Moved{n}, nil
}

func parseServer(text string) (netip.AddrPort, error) {
	server, err := netip.ParseAddrPort(text)
	if err != nil {
		return server, badRequest{fmt.Errorf("server %q: want ip:port", text)}
	}
	return server, nil
}

// Metrics of sessions that change servers.
var failovers = counter("failovers_total",
	"Sessions that lost their server and were held, were moved by an operator, or got a server again.", "event")

func (out metricsOf) failovers(c *stats.Counters) {
	out.count(failovers, c.Held, "held")
	out.count(failovers, c.Moved, "moved")
	out.count(failovers, c.Regained, "regained")
}
