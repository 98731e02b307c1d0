package daemon

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"tidegate/internal/admin"
	"tidegate/internal/config"
	"tidegate/internal/fleet"
	"tidegate/internal/fleet/view"
	"tidegate/proxy/relay"
	"tidegate/ratelimit"
)

// openFleet joins the fleet of the configuration, until the service closes or leaveFleet. A successor does so after its
// predecessor has left it: only one process can have an embedded server's port and folder.
func (s *service) openFleet(from fleet.Pending) error {
	joined, stop, err := startFleet(s.config, s.bans.bans, s.fleetGames(), from, s.held, s.log)
	if err == nil && joined != nil {
		s.unfleet = stop
		s.closers = append(s.closers, stop)
		s.fleet.Store(joined)
		share := joined.ShareJoin
		s.joins.share.Store(&share)
	}
	return err
}

// leaveFleet leaves the fleet to a successor.
func (s *service) leaveFleet() {
	if s.fleet.Load() != nil {
		s.unfleet()
	}
}

// holdPlayers has a successor pass the datagrams of other nodes' players on until it joins the fleet.
func (s *service) holdPlayers() {
	if p := s.from.predecessor; p != nil && s.config.Fleet.On() {
		o := fleetOptions(s.config, s.bans.bans, s.fleetGames(), p.Fleet, s.log)
		s.held = fleet.HoldPlayers(&o)
		s.closers = append(s.closers, s.held.End)
	}
}

func (s *service) fleetGames() fleetGames {
	return fleetGames{s.server, func() []fleet.ServerCount { return s.reloads.unrouted() }, s.joins.lend}
}

// ServerCounts implements fleet.GameServers, as does ProtocolCounts.
func (g fleetGames) ServerCounts() (all []fleet.ServerCount) {
	for _, u := range g.Upstreams() {
		for _, s := range u.Servers {
			all = append(all, fleet.ServerCount{
				Upstream: u.Name, Addr: s.Addr, Sessions: s.Sessions, State: s.State.String(),
			})
		}
	}
	if g.unrouted != nil {
		all = append(all, g.unrouted()...)
	}
	return all
}

// ProtocolCounts adds up the listeners of each protocol.
func (g fleetGames) ProtocolCounts(ctx context.Context) (all []fleet.ProtocolCount, err error) {
	f, err := g.Figures(ctx)
	for _, t := range f.Sessions {
		i := slices.IndexFunc(all, func(c fleet.ProtocolCount) bool { return c.Protocol == t.Protocol })
		if i < 0 {
			i = len(all)
			all = append(all, fleet.ProtocolCount{Protocol: t.Protocol})
		}
		all[i].Established += int(t.Open() - t.HalfOpen())
		all[i].HalfOpen += int(t.HalfOpen())
	}
	return all, err
}

// startFleet joins the fleet of a configuration. The Fleet is nil if there is none.
func startFleet(c *config.Config, bans *ratelimit.Bans, games fleet.GameServers, from fleet.Pending, held *fleet.Held,
	log zerolog.Logger) (f *fleet.Fleet, stop func(), err error) {
	if !c.Fleet.On() {
		return nil, nil, nil
	}
	o := fleetOptions(c, bans, games, from, log)
	o.Held = held
	return fleet.Start(o)
}

func fleetOptions(c *config.Config, bans *ratelimit.Bans, games fleet.GameServers, from fleet.Pending,
	log zerolog.Logger) fleet.Options {
	o := fleet.Options{
		Name: c.Fleet.Name, Node: c.Fleet.NodeName(), Servers: c.Fleet.Servers, Replicas: c.Fleet.Copies(),
		Credentials: c.Path(c.Fleet.Credentials), CA: c.Path(c.Fleet.CA),
		Certificate: c.Path(c.Fleet.Certificate), Key: c.Path(c.Fleet.Key), Bans: bans,
		Games: games, Pending: from, Log: log,
	}
	if players, ok := games.(fleet.Players); ok && c.Fleet.Follow {
		o.Players = players
	}
	if g, ok := games.(fleetGames); ok {
		o.TakeJoin = g.lend
	}
	if limits, ok := games.(fleet.Budgets); ok && c.Fleet.Limits {
		o.Budgets = limits
	}
	if c.Fleet.Embedded() {
		listen := c.Fleet.ListenAddress()
		o.Embedded = &fleet.Embedded{
			Host: listen.Addr().String(), Port: int(listen.Port()), Peers: c.Fleet.Peers,
			Secret: string(c.Fleet.Secret), Store: c.Path(c.Fleet.Store),
		}
	}
	return o
}

// fleetPending returns the changes of this node that the fleet does not know yet, for a successor.
func (s *service) fleetPending() (pending fleet.Pending) {
	if joined := s.fleet.Load(); joined != nil {
		ctx, cancel := context.WithTimeout(context.Background(), pendingTime)
		defer cancel()
		var err error
		if pending, err = joined.Pending(ctx); err != nil {
			s.log.Warn().Err(err).Msg("the successor may not know which bans have been removed")
		}
	}
	return pending
}

// pendingTime is the longest wait for the changes of a successor: the fleet may wait for an answer of NATS.
const pendingTime = 5 * time.Second

// fleetBans returns the bans of the fleet.
func (s *service) fleetBans(context.Context) ([]admin.FleetBan, error) {
	joined := s.fleet.Load()
	if joined == nil {
		return nil, nil
	}
	bans, err := joined.BansInForce()
	list := make([]admin.FleetBan, len(bans))
	for i, b := range bans {
		list[i] = admin.FleetBan{WhyBan: admin.WhyBanOf(&b.Ban), Node: b.Node}
	}
	return list, err
}

// fleetServers returns the game servers of all nodes, and all drained ones.
func (s *service) fleetServers() []admin.FleetServer {
	joined := s.fleet.Load()
	type server struct {
		upstream string
		addr     netip.AddrPort
	}
	all := make(map[server]*admin.FleetServer)
	get := func(upstream string, addr netip.AddrPort) *admin.FleetServer {
		key := server{upstream, addr}
		if all[key] == nil {
			all[key] = &admin.FleetServer{Upstream: upstream, Address: addr.String(), Nodes: []admin.FleetServerNode{}}
		}
		return all[key]
	}
	for _, d := range joined.DrainedServers() {
		one := get(d.Upstream, d.Addr)
		one.DrainedBy, one.DrainedSince = d.Node, d.Since
	}
	for _, node := range joined.Nodes() {
		for _, c := range node.Servers {
			one := get(c.Upstream, c.Addr)
			one.Sessions += c.Sessions
			one.Nodes = append(one.Nodes, admin.FleetServerNode{Node: node.Name, State: c.State, Sessions: c.Sessions})
		}
	}
	keys := slices.SortedFunc(maps.Keys(all), func(a, b server) int {
		return cmp.Or(cmp.Compare(a.upstream, b.upstream), a.addr.Compare(b.addr))
	})
	list := make([]admin.FleetServer, len(keys))
	for i, key := range keys {
		list[i] = *all[key]
	}
	return list
}

// fleetSessions returns the counts of sessions of all nodes.
func (s *service) fleetSessions() []admin.FleetNode {
	nodes := s.fleet.Load().Nodes()
	list := make([]admin.FleetNode, len(nodes))
	for i, node := range nodes {
		list[i] = admin.FleetNode{
			Node: node.Name, Age: node.Age.Round(time.Millisecond).Seconds(), Protocols: []admin.FleetProtocol{},
		}
		for _, p := range node.Protocols {
			list[i].Protocols = append(list[i].Protocols, admin.FleetProtocol(p))
			list[i].Sessions += p.Established + p.HalfOpen
		}
	}
	return list
}

// fleetState returns the state of the fleet for operators.
func (s *service) fleetState() view.Fleet { return s.fleet.Load().Status() }

// drainToFleet moves all sessions to other nodes, and then drains the proxy, at the latest after a time. It returns
// when the proxy admits no new clients.
func (s *service) drainToFleet(ctx context.Context, node string, within time.Duration, drain func()) error {
	joined := s.fleet.Load()
	if joined == nil || !s.config.Fleet.Follow {
		return admin.ErrNoFleet
	}
	if err := s.server.Ask(ctx, relay.Leave()); err != nil {
		return err
	}
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), within)
		defer cancel()
		done, err := joined.Empty(ctx, node)
		if errors.Is(err, fleet.ErrMoving) {
			return // the first drain goes on
		}
		s.log.Info().Int("moved", done.Moved).Int("left", done.Left).Dur("standstill", done.Standstill).
			AnErr("error", err).Msg("drained to the fleet")
		drain()
	}()
	return nil
}
