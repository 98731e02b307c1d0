package admin

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"tidegate/internal/upstream"
	"tidegate/proxy"
)

// Upstreams is the JSON of the list of upstreams.
type Upstreams struct {
	Upstreams []Upstream `json:"upstreams"`
}

// Upstream is the JSON of an upstream.
type Upstream struct {
	Name    string       `json:"name"`
	Servers []GameServer `json:"servers"`
}

// GameServer is the JSON of a server of an upstream.
type GameServer struct {
	Address     string    `json:"address"`
	State       string    `json:"state"`                  // as in docs/operate/servers.md
	Since       time.Time `json:"since,omitzero"`         // time of the last change of state; absent: never changed
	Cause       string    `json:"cause,omitempty"`        // of a state that is not up, or why up is not sure
	TurnedAway  int       `json:"turned_away,omitempty"`  // joins in a row that it has turned away
	Sessions    int       `json:"sessions"`               // at this server
	Elsewhere   int       `json:"elsewhere,omitempty"`    // sessions of the fleet's other nodes at this server
	MaxSessions int       `json:"max_sessions,omitempty"` // limit; absent: unlimited
	Weight      int       `json:"weight"`
	CheckedAt   time.Time `json:"checked_at,omitzero"` // absent: never
	RTT         float64   `json:"rtt_ms,omitempty"`    // of the last successful check
}

func (s *Server) listUpstreams(*http.Request) (Upstreams, error) {
	found := s.Proxy.Upstreams()
	list := Upstreams{make([]Upstream, len(found))}
	for i, u := range found {
		list.Upstreams[i] = Upstream{u.Name, make([]GameServer, len(u.Servers))}
		for j := range u.Servers {
			list.Upstreams[i].Servers[j] = gameServer(&u.Servers[j])
		}
	}
	return list, nil
}

func gameServer(s *upstream.Status) GameServer {
	return GameServer{
		Address: s.Addr.String(), State: s.State.String(), Since: s.Since.UTC(), Cause: s.Cause, Sessions: s.Sessions,
		TurnedAway: s.TurnedAway, Elsewhere: s.Elsewhere, MaxSessions: s.MaxSessions, Weight: s.Weight,
		CheckedAt: s.CheckedAt.UTC(),
		RTT:       milliseconds(s.RTT),
	}
}

// ServerOf names a server of an upstream.
type ServerOf struct {
	Server string `json:"server"` // ip:port
}

func (s *Server) drainServer(r *http.Request, of ServerOf) (nothing, error) {
	return s.changeServer(r, of, s.Proxy.DrainServer, "server drained by an operator")
}

func (s *Server) undrainServer(r *http.Request, of ServerOf) (nothing, error) {
	return s.changeServer(r, of, s.Proxy.UndrainServer, "server undrained by an operator")
}

func (s *Server) changeServer(r *http.Request, of ServerOf, change func(string, netip.AddrPort) error,
	done string) (nothing, error) {
	name := r.PathValue("name")
	addr, err := parseServer(of.Server)
	if err != nil {
		return nothing{}, err
	}
	if err := change(name, addr); err != nil {
		return nothing{}, fmt.Errorf("upstream %s, server %s: %w", name, addr, err)
	}
	s.action(r).Str("upstream", name).Stringer("server", addr).Msg(done)
	return nothing{}, nil
}

// checkUpstreams lists upstreams without a server that takes new sessions. The check fails only if no upstream has one.
// A server that only players have found dead is a warning: if the check failed, no player would come and find it alive.
func (s *Server) checkUpstreams() Check {
	all := s.Proxy.Upstreams()
	var dead, ill []string
	for i := range all {
		switch state := best(&all[i]); state {
		case upstream.Up:
		case upstream.Failing, upstream.Refusing:
			ill = append(ill, fmt.Sprint(configured(all[i].Name), " is ", state))
		default:
			dead = append(dead, configured(all[i].Name))
		}
	}
	check := Check{Name: "upstreams", OK: len(dead) < len(all) || len(all) == 0}
	if len(dead) > 0 {
		check.Detail = "no server is up: " + strings.Join(slices.Compact(dead), ", ")
	}
	if len(ill) > 0 {
		check.Warning = strings.Join(slices.Compact(ill), ", ") + ": see tidegate upstreams list"
	}
	return check
}

// best returns the best state of an upstream's servers.
func best(u *proxy.UpstreamStatus) upstream.State {
	for _, state := range []upstream.State{upstream.Up, upstream.Refusing, upstream.Failing} {
		if slices.ContainsFunc(u.Servers, func(s upstream.Status) bool { return s.State == state }) {
			return state
		}
	}
	return upstream.Down
}

// Metrics of upstreams, with their discovered servers. metrics.go has those of each configured server.
var (
	upstreamServers  = gauge("upstream_servers", "Servers by state.", "upstream", "state")
	upstreamSessions = gauge("upstream_sessions", "Sessions at the servers.", "upstream")
)

// upstreamFigures are the sums over the upstreams with one name in the configuration. A listener with many ports has
// one upstream per port.
type upstreamFigures struct {
	states   [upstream.StateCount]int
	sessions int
}

func (out metricsOf) upstreams(all []proxy.UpstreamStatus) {
	byName := make(map[string]*upstreamFigures)
	for _, u := range all {
		name := configured(u.Name)
		if byName[name] == nil {
			byName[name] = new(upstreamFigures)
		}
		sum := byName[name]
		for i := range u.Servers {
			sum.states[u.Servers[i].State]++
			sum.sessions += u.Servers[i].Sessions
		}
	}
	for name, sum := range byName {
		for state, n := range sum.states {
			out.set(upstreamServers, float64(n), name, upstream.State(state).String())
		}
		out.set(upstreamSessions, float64(sum.sessions), name)
	}
}

// configured returns an upstream's name in the configuration, without a port.
func configured(name string) string {
	name, _, _ = strings.Cut(name, ":")
	return name
}
