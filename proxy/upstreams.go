package proxy

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"tidegate/internal/upstream"
	"tidegate/proxy/relay"
)

// ErrNoServer reports an upstream whose servers take no one.
var ErrNoServer = errors.New("no server takes new sessions")

// Errors about names.
var (
	ErrNoUpstream = errors.New("no such upstream") // that a route leads to
	ErrNoRoute    = errors.New("no such route")
)

// UpstreamStatus is the state of an upstream's servers.
type UpstreamStatus struct {
	Name    string
	Servers []upstream.Status
}

// Upstreams returns the state of the servers, for all loops together. Upstreams are in the order of the listeners
// whose routes use them. It is safe for concurrent use.
func (s *Server) Upstreams() []UpstreamStatus {
	now := time.Now()
	var all []UpstreamStatus
	for _, name := range s.upstreams() {
		all = append(all, UpstreamStatus{name, s.shared.Pools.Get(name).Status(now)})
	}
	return all
}

// Choose returns a server of an upstream for a client that joins beside its datagrams, or that only asks for a server's
// state. A join counts there until free; a question has none, and takes no turn from the joins. Choose is safe for
// concurrent use. If tried is valid, that server has just failed, and another one is preferred.
func (s *Server) Choose(upstreamName string, client netip.Addr, joins bool, tried netip.AddrPort) (
	at netip.AddrPort, free func(), err error) {
	pool, failed := s.serverAt(upstreamName, tried)
	if pool == nil {
		return at, nil, ErrNoUpstream
	}
	pick := pool.Peek
	if joins {
		pick = pool.Pick
	}
	server := pick(time.Now(), client, failed)
	if server == nil {
		return at, nil, ErrNoServer
	}
	if joins {
		free = func() { pool.Release(server) }
	}
	return server.Addr, free, nil
}

// TransferServer moves all sessions of a server to other servers, as the upstream balances new sessions. It drains
// the server, so that no session comes back. It returns the number of sessions on their way.
func (s *Server) TransferServer(ctx context.Context, upstreamName string, from netip.AddrPort) (moved int, err error) {
	pool, err := s.pool(upstreamName)
	if err != nil {
		return 0, err
	}
	if err := s.setDrain(upstreamName, from, true); err != nil {
		return 0, err
	}
	if err := s.Ask(ctx, relay.MoveSessions(pool, from, &moved)); err != nil {
		return 0, err
	}
	return moved, nil
}

// Servers returns the addresses of an upstream's servers.
func (s *Server) Servers(upstreamName string) (all []netip.AddrPort) {
	pool, err := s.pool(upstreamName)
	if err != nil {
		return nil
	}
	for _, server := range pool.Servers() {
		all = append(all, server.Addr)
	}
	return all
}

// Checked notes the result of a health check that is asked beside the loops. An empty why means that the server is
// well. It reports whether the server has gone down or come up. It is safe for concurrent use.
func (s *Server) Checked(upstreamName string, at netip.AddrPort, took time.Duration, why string) (changed bool) {
	pool, server := s.serverAt(upstreamName, at)
	return server != nil && pool.Checked(server, time.Now(), why == "", took, why)
}

// Failed notes why a request beside the loops, which began at since, found a server gone or at fault. It is safe for
// concurrent use.
func (s *Server) Failed(upstreamName string, at netip.AddrPort, since time.Time, why string) {
	if pool, server := s.serverAt(upstreamName, at); server != nil {
		pool.Failed(server, time.Now(), since, why)
	}
}

// serverAt returns an upstream's pool, and its listed server with this address. Each is nil if there is none.
func (s *Server) serverAt(upstreamName string, at netip.AddrPort) (*upstream.Pool, *upstream.Server) {
	pool, err := s.pool(upstreamName)
	if err != nil {
		return nil, nil
	}
	for _, server := range pool.Servers() {
		if server.Addr == at {
			return pool, server
		}
	}
	return pool, nil
}

// DrainServer stops new sessions to a server of an upstream. Its sessions stay. It is safe for concurrent use.
func (s *Server) DrainServer(upstreamName string, server netip.AddrPort) error {
	return s.setDrain(upstreamName, server, true)
}

// UndrainServer ends the effect of DrainServer.
func (s *Server) UndrainServer(upstreamName string, server netip.AddrPort) error {
	return s.setDrain(upstreamName, server, false)
}

func (s *Server) setDrain(name string, server netip.AddrPort, drain bool) error {
	pool, err := s.pool(name)
	if err == nil {
		err = pool.Drain(time.Now(), server, drain)
	}
	tell := s.onDrain.Load()
	if tell == nil || err != nil && drain {
		return err
	}
	if (*tell)(name, server, drain) { // also the drain of a server that only other nodes list
		return nil
	}
	return err
}

// OnDrain sets a function that hears of each drain by an operator, and of each end of one. It returns whether the
// fleet has drained the server. It must be safe for concurrent use.
func (s *Server) OnDrain(tell func(upstreamName string, server netip.AddrPort, drain bool) (known bool)) {
	s.onDrain.Store(&tell)
}

// SetFleetDrain drains a server in the name of the fleet, or ends the drain if since is zero. The server may be
// unknown here. It is safe for concurrent use.
func (s *Server) SetFleetDrain(upstreamName string, server netip.AddrPort, since time.Time) {
	s.shared.Pools.SetFleetDrain(upstreamName, server, since)
}

// SetFleetSessions replaces the counts of the sessions that other nodes of the fleet have, by upstream and server. The
// caller does not change the maps any more. It is safe for concurrent use.
func (s *Server) SetFleetSessions(counts map[string]map[netip.AddrPort]int) {
	s.shared.Pools.SetFleetSessions(counts)
}

// Drained returns the drained servers of each upstream, by the upstream's name. It is safe for concurrent use.
func (s *Server) Drained() map[string][]netip.AddrPort {
	drained := make(map[string][]netip.AddrPort)
	for _, name := range s.upstreams() {
		if addrs := s.shared.Pools.Get(name).Drained(); len(addrs) > 0 {
			drained[name] = addrs
		}
	}
	return drained
}

// InheritDrains drains the servers that a predecessor had drained. That includes servers that are not discovered yet.
func (s *Server) InheritDrains(drained map[string][]netip.AddrPort) {
	for name, addrs := range drained {
		if pool, err := s.pool(name); err == nil { // a removed upstream has nothing to drain
			pool.InheritDrains(time.Now(), addrs)
		}
	}
}

// Discovered replaces the discovered servers of an upstream. The servers of the settings stay. A server that vanishes
// keeps its sessions and gets no new ones. Discovered is safe for concurrent use.
func (s *Server) Discovered(upstreamName string, servers []upstream.Target) {
	s.shared.Pools.Get(upstreamName).Discover(servers)
}

// Troubled reports whether a discovered server of an upstream refuses or is silent. It is safe for concurrent use.
func (s *Server) Troubled(upstreamName string) bool {
	return s.shared.Pools.Get(upstreamName).Troubled()
}

// Has returns an error if the routes in force have another name than this, or lead to no upstream of this name. Empty
// names are always there.
func (s *Server) Has(route, upstreamName string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found, leads bool
	for i := range s.settings.Listeners {
		r := s.settings.Listeners[i].Route
		found, leads = found || r.Name == route, leads || r.Upstream.Name == upstreamName
	}
	switch {
	case route != "" && !found:
		return ErrNoRoute
	case upstreamName != "" && !leads:
		return ErrNoUpstream
	}
	return nil
}

func (s *Server) pool(name string) (*upstream.Pool, error) {
	if !slices.Contains(s.upstreams(), name) {
		return nil, ErrNoUpstream
	}
	return s.shared.Pools.Get(name), nil
}

// upstreams returns the names of the upstreams of the routes in force, each once, in the order of the listeners.
func (s *Server) upstreams() (names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.settings.Listeners {
		if name := s.settings.Listeners[i].Route.Upstream.Name; !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// serverChanged logs what players have met at a server. The loops log the results of checks themselves.
func (s *Server) serverChanged(c upstream.Change) {
	log := &s.options.Log
	switch {
	case c.To == upstream.Failing:
		of(log.Warn(), &c).Msg("server failing")
	case c.To == upstream.Refusing:
		of(log.Warn(), &c).Msg("server refusing")
	case c.To == upstream.Up && c.From != upstream.Down:
		of(log.Info(), &c).Msg("server up")
	}
	if tell := s.options.ServerChanged; tell != nil {
		tell(c)
	}
}

func of(line *zerolog.Event, c *upstream.Change) *zerolog.Event {
	if c.Cause != "" {
		line.Str("reason", c.Cause)
	}
	return line.Str("upstream", c.Upstream).Stringer("server", c.Server)
}
