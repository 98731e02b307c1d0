package admin

import (
	"context"
	"net/http"
	"time"
)

// Fleet is the JSON of this node's part in a fleet.
type Fleet struct {
	On        bool    `json:"on"` // false: the configuration has no fleet, and the rest has no meaning
	Name      string  `json:"name,omitempty"`
	Node      string  `json:"node,omitempty"`
	Server    string  `json:"server,omitempty"` // NATS server of the connection
	Connected bool    `json:"connected"`
	Current   bool    `json:"current"`         // the bans and drains in force are those of the fleet
	Error     string  `json:"error,omitempty"` // of the last attempt to share
	Bans      int     `json:"bans"`            // networks that the fleet knows, banned or just freed
	Drained   int     `json:"drained"`         // game servers that the fleet drains
	Waiting   int     `json:"waiting"`         // changes of this node that the fleet does not have yet
	Beyond    int     `json:"beyond"`          // bans and drains of this node for which the fleet has no room
	Received  uint64  `json:"received"`        // records of other nodes
	Sent      uint64  `json:"sent"`            // records of this node
	Invalid   uint64  `json:"invalid"`         // records that were ignored because they are not valid
	Conflicts uint64  `json:"conflicts"`       // changes of this node that met another node's change
	Lag       float64 `json:"lag"`             // seconds from the last change at another node until it was in force here
}

// FleetServers is the JSON of the game servers that the fleet drains.
type FleetServers struct {
	Servers []FleetServer `json:"servers"` // by upstream and address
}

// FleetServer is the JSON of a game server that the fleet drains.
type FleetServer struct {
	Upstream string    `json:"upstream"`
	Address  string    `json:"address"`
	Node     string    `json:"node"`  // where an operator drained it
	Since    time.Time `json:"since"` // time of the drain
}

// FleetBans is the JSON of the fleet's bans.
type FleetBans struct {
	Bans []FleetBan `json:"bans"` // by network
}

// FleetBan is the JSON of a ban of the fleet.
type FleetBan struct {
	Prefix string    `json:"prefix"`
	Reason string    `json:"reason"`
	Author string    `json:"author"`
	Since  time.Time `json:"since"`
	Until  time.Time `json:"until,omitzero"` // absent: permanent
	Node   string    `json:"node"`           // where it was imposed
}

func (s *Server) listFleetServers(*http.Request) (FleetServers, error) {
	return FleetServers{append([]FleetServer{}, s.FleetServers()...)}, nil
}

func (s *Server) listFleetBans(r *http.Request) (FleetBans, error) {
	bans, err := s.FleetBans(r.Context())
	return FleetBans{append([]FleetBan{}, bans...)}, err
}

// withoutFleet sets the functions of Options that a proxy without a fleet leaves out.
func (o *Options) withoutFleet() {
	if o.Fleet == nil {
		o.Fleet = func() Fleet { return Fleet{} }
	}
	if o.FleetServers == nil {
		o.FleetServers = func() []FleetServer { return nil }
	}
	if o.FleetBans == nil {
		o.FleetBans = func(context.Context) ([]FleetBan, error) { return nil, nil }
	}
}

func (s *Server) fleet(*http.Request) (Fleet, error) { return s.Fleet(), nil }

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
)

func (out metricsOf) fleet(f Fleet) {
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
}
