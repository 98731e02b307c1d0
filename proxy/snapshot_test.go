package proxy

import (
	"context"
	"math"
	"time"

	"tidegate/internal/netio"
	"tidegate/proxy/relay"
	"tidegate/proxy/stats"
	"tidegate/ratelimit"
)

// Snapshot is the state of a proxy at one moment, for tests.
type Snapshot struct {
	Counters stats.Counters
	Sockets  []netio.Stats   // of each loop
	Sessions []relay.Session // oldest first
	Kernel   stats.KernelFigures
}

// Snapshot returns the present state of all loops. After Run it has only zeros.
func (s *Server) Snapshot() (all Snapshot) {
	q := &relay.ListSessions{Limit: math.MaxInt}
	if s.Ask(context.Background(), q) == nil {
		all.Sessions = q.Sessions
	}
	for _, l := range s.loops {
		l.ask(stats.WorkList, func(r *relay.Relay, _ time.Time) { // last, so that each session not listed counts as closed
			f := r.Figures()
			stats.Add(&all.Counters, &f.Counters)
			all.Sockets = append(all.Sockets, l.sockets())
		})
	}
	all.Kernel = stats.ReadKernel(s.options.Kernel.Shield, s.options.Kernel.Flows)
	all.Counters.AddForwarded(&all.Kernel)
	return all
}

// List returns the sessions that a request selects, for tests.
func (s *Server) List(ctx context.Context, q *relay.ListSessions) ([]relay.Session, error) {
	err := s.Ask(ctx, q)
	return q.Sessions, err
}

// Bans returns the bans in force.
func (s *Server) Bans() *ratelimit.Bans { return s.options.Bans }
