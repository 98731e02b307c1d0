package proxy

import (
	"context"
	"math"
	"slices"
	"time"

	"tidegate/internal/netio"
	"tidegate/proxy/relay"
	"tidegate/proxy/stats"
)

// Snapshot is the state of a proxy at one moment.
type Snapshot struct {
	Counters stats.Counters
	Sockets  []netio.Stats   // of each loop
	Sessions []relay.Session // by Relay, each oldest first
	Kernel   stats.KernelFigures
}

// Snapshot returns the present state of all loops. It waits for some turns of each loop. After Run it has only zeros.
func (s *Server) Snapshot() Snapshot {
	var all Snapshot
	for _, l := range s.loops {
		var list relay.Pages
		if l.walk(context.Background(), stats.WorkList, relay.Query{Limit: math.MaxInt}.Listing(&list)) == nil {
			all.Sessions = append(all.Sessions, slices.Concat(list...)...)
		}
		l.ask(stats.WorkList, func(r *relay.Relay, _ time.Time) { // last, so that each session not listed counts as closed
			all.Counters.Add(r.Counters())
			all.Sockets = append(all.Sockets, l.sockets())
		})
	}
	all.Kernel = stats.ReadKernel(s.options.Kernel.Shield, s.options.Kernel.Flows)
	all.Counters.AddForwarded(&all.Kernel)
	return all
}
