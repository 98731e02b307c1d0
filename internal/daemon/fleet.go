package daemon

import (
	"context"
	"time"

	"github.com/rs/zerolog"

	"tidegate/internal/admin"
	"tidegate/internal/config"
	"tidegate/internal/fleet"
	"tidegate/ratelimit"
)

// openFleet joins the fleet of the configuration, until the service closes. A successor does so after its predecessor
// has ended: only one process can have an embedded server's port and folder.
func (s *service) openFleet() error {
	joined, stop, err := startFleet(s.config, s.bans.bans, s.server, s.log)
	if err == nil && joined != nil {
		s.fleet.Store(joined)
		s.closers = append(s.closers, stop)
	}
	return err
}

// startFleet joins the fleet of a configuration. The Fleet is nil if there is none.
func startFleet(c *config.Config, bans *ratelimit.Bans, games fleet.GameServers, log zerolog.Logger) (
	f *fleet.Fleet, stop func(), err error,
) {
	if !c.Fleet.On() {
		return nil, nil, nil
	}
	o := fleet.Options{
		Name: c.Fleet.Name, Node: c.Fleet.NodeName(), Servers: c.Fleet.Servers, Replicas: c.Fleet.Copies(),
		Credentials: c.Path(c.Fleet.Credentials), NKey: c.Path(c.Fleet.NKey), CA: c.Path(c.Fleet.CA),
		Certificate: c.Path(c.Fleet.Certificate), Key: c.Path(c.Fleet.Key), Bans: bans,
		Games: games, Log: log,
	}
	if c.Fleet.Embedded {
		listen := c.Fleet.ListenAddress()
		o.Embedded = &fleet.Embedded{
			Host: listen.Addr().String(), Port: int(listen.Port()), Peers: c.Fleet.Peers,
			Secret: string(c.Fleet.Secret), Store: c.Path(c.Fleet.Store),
		}
	}
	return fleet.Start(o)
}

// fleetBans returns the bans of the fleet.
func (s *service) fleetBans(ctx context.Context) ([]admin.FleetBan, error) {
	joined := s.fleet.Load()
	if joined == nil {
		return nil, nil
	}
	bans, err := joined.BansInForce(ctx)
	list := make([]admin.FleetBan, len(bans))
	for i, b := range bans {
		list[i] = admin.FleetBan{
			Prefix: b.Prefix.String(), Reason: b.Reason, Author: b.Author, Since: b.Since, Until: b.Until, Node: b.Node,
		}
	}
	return list, err
}

// fleetServers returns the game servers that the fleet drains.
func (s *service) fleetServers() []admin.FleetServer {
	joined := s.fleet.Load()
	if joined == nil {
		return nil
	}
	drained := joined.DrainedServers()
	list := make([]admin.FleetServer, len(drained))
	for i, d := range drained {
		list[i] = admin.FleetServer{Upstream: d.Upstream, Address: d.Addr.String(), Node: d.Node, Since: d.Since}
	}
	return list
}

// fleetState returns the state of the fleet for operators.
func (s *service) fleetState() admin.Fleet {
	joined := s.fleet.Load()
	if joined == nil {
		return admin.Fleet{}
	}
	state := joined.Status()
	return admin.Fleet{
		On: true, Name: joined.Name, Node: joined.Node, Server: state.Server, Connected: state.Connected,
		Current: state.Current, Error: state.Error, Bans: state.Records, Drained: state.Drained,
		Waiting: state.Waiting, Beyond: state.Beyond,
		Received: state.Received, Sent: state.Sent, Invalid: state.Invalid, Conflicts: state.Conflicts,
		Lag: max(0, state.Lag).Round(time.Microsecond).Seconds(),
	}
}
