package proxy

import (
	"errors"
	"net/netip"
	"time"

	"tidegate/internal/upstream"
)

// ErrNoUpstream is of a name that no route's upstream has.
var ErrNoUpstream = errors.New("no such upstream")

// UpstreamStatus is how the servers of an upstream are.
type UpstreamStatus struct {
	Name    string
	Servers []upstream.Status
}

// Upstreams tells how the servers are, of all loops together: upstreams as their routes' listeners are listed. Safe for
// concurrent use.
func (s *Server) Upstreams() []UpstreamStatus {
	now := time.Now()
	var all []UpstreamStatus
	known := make(map[string]bool)
	for _, u := range s.upstreams() {
		if !known[u.Name] {
			known[u.Name] = true
			all = append(all, UpstreamStatus{u.Name, s.pools.Get(u.Name).Status(now)})
		}
	}
	return all
}

// DrainServer sends a server of an upstream no new sessions any more; those that it has stay. Safe for concurrent use.
func (s *Server) DrainServer(upstreamName string, server netip.AddrPort) error {
	return s.setDrain(upstreamName, server, true)
}

// UndrainServer takes DrainServer back.
func (s *Server) UndrainServer(upstreamName string, server netip.AddrPort) error {
	return s.setDrain(upstreamName, server, false)
}

func (s *Server) setDrain(name string, server netip.AddrPort, drain bool) error {
	pool, err := s.pool(name)
	if err != nil {
		return err
	}
	return pool.Drain(time.Now(), server, drain)
}

// Drained are the servers of each upstream that are drained, by its name. Safe for concurrent use.
func (s *Server) Drained() map[string][]netip.AddrPort {
	drained := make(map[string][]netip.AddrPort)
	for _, u := range s.upstreams() {
		if addrs := s.pools.Get(u.Name).Drained(); len(addrs) > 0 {
			drained[u.Name] = addrs
		}
	}
	return drained
}

// InheritDrains drains what was drained in a predecessor, also of servers that are yet to be discovered.
func (s *Server) InheritDrains(drained map[string][]netip.AddrPort) {
	for name, addrs := range drained {
		if pool, err := s.pool(name); err == nil { // an upstream that is no more has nothing to drain
			pool.InheritDrains(time.Now(), addrs)
		}
	}
}

// Discovered replaces the servers of an upstream that were found beside those of the settings. Those that vanish keep
// their sessions and get no new ones. Safe for concurrent use.
func (s *Server) Discovered(upstreamName string, servers []upstream.Target) {
	s.pools.Get(upstreamName).Discover(servers)
}

func (s *Server) pool(name string) (*upstream.Pool, error) {
	for _, u := range s.upstreams() {
		if u.Name == name {
			return s.pools.Get(name), nil
		}
	}
	return nil, ErrNoUpstream
}

// upstreams are those of the routes in force, by listener.
func (s *Server) upstreams() []*Upstream {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]*Upstream, len(s.settings.Listeners))
	for i := range s.settings.Listeners {
		all[i] = s.settings.Listeners[i].Route.Upstream
	}
	return all
}
