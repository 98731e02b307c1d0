package proxy

import (
	"context"
	"net/netip"
	"time"

	"tidegate/proxy/stats"
)

// Why returns the bans, rules and limits that decide about an address, over all loops. It waits for each loop's turn,
// as long as ctx allows.
func (s *Server) Why(ctx context.Context, a netip.Addr) (Why, error) {
	var all Why
	for _, l := range s.loops {
		var one Why
		if err := l.consult(ctx, stats.WorkWhy, func(r *Relay, now time.Time) { one = r.Why(now, a) }); err != nil {
			return Why{}, err
		}
		if err := l.walk(ctx, stats.WorkWhy, one.Of(a)); err != nil {
			return Why{}, err
		}
		all.Add(&one)
	}
	return all, nil
}
