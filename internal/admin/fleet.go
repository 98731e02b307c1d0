package admin

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"tidegate/internal/fleet/view"
)

// checkFleet never fails: a node that is cut off still serves its players.
func (s *Server) checkFleet() []Check {
	state := s.Fleet()
	if !state.On {
		return nil
	}
	check := Check{Name: "fleet", OK: true, Detail: fmt.Sprintf("%d other nodes", state.Nodes)}
	if why := state.Unshared(); why != "" {
		check.Detail, check.Warning = "", "bans and drains are not shared: "+why
	}
	return []Check{check}
}

// FleetServers is the JSON of the game servers of all nodes.
type FleetServers struct {
	Servers   []FleetServer `json:"servers"`   // by upstream and address
	Total     int           `json:"total"`     // that the search found; the list has at most the parameter limit
	Differing int           `json:"differing"` // of them those with different states at different nodes
}

// FleetServer is the JSON of a game server of the fleet.
type FleetServer struct {
	Upstream     string            `json:"upstream"`
	Address      string            `json:"address"`
	Sessions     int               `json:"sessions"`               // at all nodes together
	DrainedBy    string            `json:"drained_by,omitempty"`   // node of the drain; absent: none
	DrainedSince time.Time         `json:"drained_since,omitzero"` // absent: none
	Nodes        []FleetServerNode `json:"nodes"`                  // by name
}

// FleetServerNode is the JSON of a node's account of a game server.
type FleetServerNode struct {
	Node     string `json:"node"`
	State    string `json:"state"` // by the node's own checks
	Sessions int    `json:"sessions"`
}

// FleetSessions is the JSON of the counts of sessions of all nodes.
type FleetSessions struct {
	Nodes []FleetNode `json:"nodes"` // by name
}

// FleetNode is the JSON of a node's account of its sessions.
type FleetNode struct {
	Node      string          `json:"node"`
	Age       float64         `json:"age"`      // seconds since its last report
	Sessions  int             `json:"sessions"` // of all protocols
	Protocols []FleetProtocol `json:"protocols"`
}

// FleetProtocol is the JSON of a node's account of one protocol.
type FleetProtocol struct {
	Protocol    string `json:"protocol"`
	Established int    `json:"established"`
	HalfOpen    int    `json:"half_open"`
}

// FleetBans is the JSON of the fleet's bans.
type FleetBans struct {
	Bans  []FleetBan `json:"bans"`  // the youngest first
	Total int        `json:"total"` // that the search found; the list has at most the parameter limit
}

// FleetBan is the JSON of a ban of the fleet.
type FleetBan struct {
	WhyBan
	Node string `json:"node"` // where it was imposed
}

func (s *Server) listFleetServers(r *http.Request) (FleetServers, error) {
	search, limit, err := asked(r)
	if err != nil {
		return FleetServers{}, err
	}
	only := r.URL.Query().Get("differ")
	if only != "" && only != "true" && only != "false" {
		return FleetServers{}, badRequest{fmt.Errorf("differ %q: want true or false", only)}
	}
	all := s.FleetServers()
	list := FleetServers{Servers: make([]FleetServer, 0, min(limit, len(all)))}
	for i := range all {
		one := &all[i]
		if search != "" && !strings.Contains(strings.ToLower(one.Upstream+" "+one.Address), search) {
			continue
		}
		differ := one.differ()
		if list.Total++; differ {
			list.Differing++
		}
		if (differ || only != "true") && len(list.Servers) < limit {
			list.Servers = append(list.Servers, *one)
		}
	}
	return list, nil
}

// differ reports whether two nodes have different states of the server.
func (f *FleetServer) differ() bool {
	return slices.ContainsFunc(f.Nodes, func(n FleetServerNode) bool { return n.State != f.Nodes[0].State })
}

// asked returns the text that a request searches for, in lower case, and the most items of the answer: all unless the
// parameter limit says otherwise.
func asked(r *http.Request) (search string, limit int, err error) {
	ask := r.URL.Query()
	limit, err = number(ask.Get("limit"), math.MaxInt, 1, maxPage)
	return strings.ToLower(ask.Get("search")), limit, err
}

func (s *Server) listFleetSessions(*http.Request) (FleetSessions, error) {
	return FleetSessions{append([]FleetNode{}, s.FleetSessions()...)}, nil
}

func (s *Server) listFleetBans(r *http.Request) (FleetBans, error) {
	search, limit, err := asked(r)
	if err != nil {
		return FleetBans{}, err
	}
	all, err := s.FleetBans(r.Context())
	found := slices.DeleteFunc(append([]FleetBan{}, all...), func(b FleetBan) bool {
		return !strings.Contains(strings.ToLower(b.Prefix+" "+b.Reason+" "+b.Author+" "+b.Node), search)
	})
	slices.SortFunc(found, func(a, b FleetBan) int {
		return cmp.Or(b.Since.Compare(a.Since), cmp.Compare(a.Prefix, b.Prefix))
	})
	return FleetBans{Bans: found[:min(limit, len(found))], Total: len(found)}, err
}

// ErrNoFleet says that this proxy's sessions cannot move to other nodes.
var ErrNoFleet = errors.New("the configuration has no fleet.follow = true, so sessions cannot move to other nodes")

// FleetDrain is the JSON of a drain of this node to its fleet.
type FleetDrain struct {
	Node   string  `json:"node,omitempty"` // that gets all sessions; absent: all other nodes share them
	Within float64 `json:"within"`         // seconds until the proxy ends, at the latest
}

// maxWithin bounds a drain to the fleet in seconds.
const maxWithin = 24 * 60 * 60

// drainToFleet answers at once: the sessions take time.
func (s *Server) drainToFleet(r *http.Request, d FleetDrain) (nothing, error) {
	if !(d.Within > 0 && d.Within <= maxWithin) {
		return nothing{}, badRequest{fmt.Errorf("within: want more than 0 seconds, and at most %d", maxWithin)}
	}
	err := s.DrainToFleet(r.Context(), d.Node, time.Duration(d.Within*float64(time.Second)))
	if err == nil {
		s.action(r).Str("node", d.Node).Float64("within", d.Within).Msg("proxy drained to its fleet by an operator")
	}
	return nothing{}, err
}

func (s *Server) fleet(*http.Request) (view.Fleet, error) { return s.Fleet(), nil }

// Metrics of a fleet. A proxy without one does not have them.
var (
	fleetConnected = gauge("fleet_connected", "1 while a NATS server is connected.")
	fleetCurrent   = gauge("fleet_current", "1 while the bans and drains in force are those of the fleet.")
	fleetBans      = gauge("fleet_bans", "Networks that the fleet knows, banned or just freed.")
	fleetDrained   = gauge("fleet_drained_servers", "Game servers that the fleet drains.")
	fleetWaiting   = gauge("fleet_waiting", "Changes of this node that the fleet does not have yet.")
	fleetBeyond    = gauge("fleet_beyond", "Bans and drains of this node for which the fleet has no room.")
	fleetLag       = gauge("fleet_lag_seconds", "Time from the last change at another node until it was in force here.")
	fleetRecords   = counter("fleet_records_total", "Records of bans and drains, by fate.", "fate")
	fleetConflicts = counter("fleet_conflicts_total", "Changes of this node that met another node's change.")
	fleetNodes     = gauge("fleet_nodes", "Other nodes whose counts of sessions are known.")
	fleetReports   = counter("fleet_reports_total", "Reports of counts of sessions, by fate.", "fate")
	fleetUncounted = gauge("fleet_uncounted_servers", "Servers of this node for which its reports have no room.")
	fleetCountLag  = gauge("fleet_count_lag_seconds", "Time from a change of counts at another node until it was known.")
	fleetPlayers   = gauge("fleet_players", "Players of other nodes that this node knows.")
	fleetStrays    = counter("fleet_strays_total", "Datagrams of players that arrived at another node, by fate.", "fate")
	fleetLost      = counter("fleet_player_messages_ignored_total", "Ignored messages about players, by reason.", "reason")
	fleetMoves     = counter("fleet_moves_total", "Sessions that have moved between nodes, by direction.", "direction")
	fleetUntold    = gauge("fleet_untold_players", "Players of this node for which its messages have no room.")
	fleetSpending  = counter("fleet_limit_reports_total", "Reports of the use of limits, by fate.", "fate")
	fleetAmounts   = counter("fleet_limit_amounts_total", "Amounts that sources have used of limits, by fate.", "fate")
	fleetMessages  = counter("fleet_messages_total", "Messages of NATS.", "direction")
	fleetBytes     = counter("fleet_bytes_total", "Bytes in messages of NATS.", "direction")
)

func (out metricsOf) fleet(f view.Fleet) {
	if !f.On {
		return
	}
	out.set(fleetConnected, truth(f.Connected))
	out.set(fleetCurrent, truth(f.Current))
	out.set(fleetBans, float64(f.Bans))
	out.set(fleetDrained, float64(f.Drained))
	out.set(fleetWaiting, float64(f.Waiting))
	out.set(fleetBeyond, float64(f.Beyond))
	out.set(fleetLag, f.Lag)
	out.count(fleetRecords, f.Received, "received")
	out.count(fleetRecords, f.Sent, "sent")
	out.count(fleetRecords, f.Invalid, "invalid")
	out.count(fleetConflicts, f.Conflicts)
	out.set(fleetNodes, float64(f.Nodes))
	out.set(fleetUncounted, float64(f.Reports.Beyond))
	out.set(fleetCountLag, f.Reports.Lag)
	out.count(fleetReports, f.Reports.Received, "received")
	out.count(fleetReports, f.Reports.Sent, "sent")
	out.count(fleetReports, f.Reports.Invalid, "invalid")
	out.count(fleetReports, f.Reports.NoRoom, "no_room")
	out.fleetPlayers(&f.Players)
	out.fleetLimits(&f.Limits)
	out.count(fleetMessages, f.Messages.In, "in")
	out.count(fleetMessages, f.Messages.Out, "out")
	out.count(fleetBytes, f.Messages.BytesIn, "in")
	out.count(fleetBytes, f.Messages.BytesOut, "out")
}

func (out metricsOf) fleetPlayers(p *view.Players) {
	if !p.On {
		return
	}
	out.set(fleetPlayers, float64(p.Known))
	out.set(fleetUntold, float64(p.Beyond))
	out.count(fleetStrays, p.Passed, "passed")
	out.count(fleetStrays, p.Taken, "taken")
	out.count(fleetStrays, p.Answers, "answers")
	out.count(fleetStrays, p.Late, "late")
	out.count(fleetStrays, p.TooMany, "too_many")
	out.count(fleetMoves, p.Left, "left")
	out.count(fleetMoves, p.Came, "came")
	out.count(fleetLost, p.Invalid, "invalid")
	out.count(fleetLost, p.NoRoom, "no_room")
}

func (out metricsOf) fleetLimits(l *view.Limits) {
	if !l.On {
		return
	}
	out.count(fleetSpending, l.Sent, "sent")
	out.count(fleetSpending, l.Received, "received")
	out.count(fleetSpending, l.Invalid, "invalid")
	out.count(fleetSpending, l.NoRoom, "no_room")
	out.count(fleetAmounts, l.Told, "told")
	out.count(fleetAmounts, l.Charged, "charged")
}
