package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/rs/zerolog"
	"tidegate/internal/admin"
	"tidegate/internal/config"
	"tidegate/internal/each"
	"tidegate/internal/fleet"
	"tidegate/internal/stray"
	"tidegate/proxy"
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
	return each.Of(bans, func(b fleet.Ban) admin.FleetBan {
		return admin.FleetBan{WhyBan: admin.WhyBanOf(&b.Ban), Node: b.Node}
	}), err
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
	return each.Of(keys, func(key server) admin.FleetServer { return *all[key] })
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

// fleetGames are the game servers, the players and the limits of a proxy, as its fleet sees them: fleet.GameServers,
// fleet.Players and fleet.Budgets have the promises of the methods.
type fleetGames struct {
	*proxy.Server
	unrouted func() []fleet.ServerCount // servers that no route reaches; nil: none
	lend     func(join []byte)          // takes a join of another node's; nil: none
}

// JoinFleet implements fleet.Players.
func (g fleetGames) JoinFleet(ctx context.Context, carrier stray.Carrier, secret stray.Secret) error {
	g.HoldForFleet(carrier, secret)
	return g.Ask(ctx, relay.TellPlayers())
}

// HoldForFleet implements fleet.Players.
func (g fleetGames) HoldForFleet(carrier stray.Carrier, secret stray.Secret) {
	g.Shared().Players.Join(carrier, secret)
}

// PlayerChanges implements fleet.Players.
func (g fleetGames) PlayerChanges(whole bool) (opened, closed []stray.Key, isWhole bool) {
	return g.Shared().Players.Changes(whole)
}

// TakeStrays implements fleet.Players.
func (g fleetGames) TakeStrays(node string, all []stray.Datagram) {
	g.Begin(g.Shared().TakeStrays(node, all))
}

// SendAnswers implements fleet.Players.
func (g fleetGames) SendAnswers(node string, all []stray.Datagram) {
	g.Begin(g.Shared().SendAnswers(node, all))
}

// CopyPlayers implements fleet.Players. Loops call the function.
func (g fleetGames) CopyPlayers(most int, choose func(stray.Key) bool) ([]stray.Session, error) {
	return g.TakeOutPlayers(most, choose, nil)
}

// TakeOutPlayers implements fleet.Players. Loops call both functions.
func (g fleetGames) TakeOutPlayers(
	most int, choose func(stray.Key) bool, gone func(stray.Key),
) ([]stray.Session, error) {
	q := &relay.Movers{Most: most, Choose: choose, Gone: gone}
	// The walk must end, also if a caller gives up: the sessions that it has taken out are nowhere else.
	err := g.Ask(context.Background(), q)
	return q.Found, err
}

// PlayersLeft implements fleet.Players.
func (g fleetGames) PlayersLeft(ctx context.Context) (n int, err error) {
	if err := g.Ask(ctx, relay.CountSessions(&n)); err != nil {
		return 0, err // a loop may still write n
	}
	return n, nil
}

// CheckPlayers implements fleet.Players.
func (g fleetGames) CheckPlayers(ctx context.Context, records [][]byte) []error {
	q := relay.NewCheck(time.Now(), records)
	if err := g.Ask(ctx, q); err != nil {
		return slices.Repeat([]error{err}, len(records)) // the loop may still write the faults
	}
	ours := make(map[netip.Addr]bool)
	for i, source := range q.Sources {
		if !source.IsValid() {
			continue
		}
		if _, known := ours[source]; !known {
			ours[source] = isOurs(source)
		}
		if !ours[source] {
			q.Faults[i] = fmt.Errorf("%w: its server knows it by the address %v, which this machine does not have, and its "+
				"route holds no sessions", relay.ErrTravel, source)
		}
	}
	return q.Faults
}

// isOurs reports whether this machine has an address.
func isOurs(a netip.Addr) bool {
	s, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(a, 0)))
	if err != nil {
		return false
	}
	_ = s.Close() // it was never used
	return true
}

// PutInPlayers implements fleet.Players.
func (g fleetGames) PutInPlayers(moved []stray.Session) (faults func(ctx context.Context) []error) {
	return g.putIn(moved, true)
}

// PutBackPlayers implements fleet.Players. A session whose source address is not free tries again with its client's
// datagrams, and is lost if it does not get it in time.
func (g fleetGames) PutBackPlayers(moved []stray.Session) (faults func(ctx context.Context) []error) {
	return g.putIn(moved, false)
}

func (g fleetGames) putIn(moved []stray.Session, returns bool) (faults func(ctx context.Context) []error) {
	q, all := g.Shared().PutInPlayers(time.Now(), moved, returns)
	wait := g.Begin(q)
	return func(ctx context.Context) []error {
		if err := wait(ctx); err != nil {
			return slices.Repeat([]error{err}, len(moved)) // the loop may still write the faults
		}
		return all
	}
}

// ChargeSpending implements fleet.Budgets. It does not wait for the loops.
func (g fleetGames) ChargeSpending(reports []ratelimit.Spending, p ratelimit.Peers) {
	g.Begin(relay.ChargeSpending(reports, p))
}

// TakeSpending implements fleet.Budgets: the largest uses come first.
func (g fleetGames) TakeSpending(ctx context.Context, most int, p ratelimit.Peers) ([]ratelimit.Spending, error) {
	var all []ratelimit.Spending
	if err := g.Ask(ctx, relay.TakeSpending(p, &all)); err != nil {
		return nil, err
	}
	return ratelimit.Top(all, most), nil
}
