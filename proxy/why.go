package proxy

import (
	"context"
	"net/netip"
	"time"

	"tidegate/proxy/relay"
	"tidegate/proxy/stats"
)

// Why returns the bans, rules and limits that decide about an address, over all loops. It waits for each loop's turn,
// as long as ctx allows.
func (s *Server) Why(ctx context.Context, a netip.Addr) (relay.Why, error) {
	var all relay.Why
	for _, l := range s.loops {
		var one relay.Why
		if err := l.consult(ctx, stats.WorkWhy, func(r *relay.Relay, now time.Time) { one = r.Why(now, a) }); err != nil {
			return relay.Why{}, err
		}
		if err := l.walk(ctx, stats.WorkWhy, one.Of(a)); err != nil {
			return relay.Why{}, err
		}
		all.Add(&one)
	}
	s.mu.Lock()
	listeners := s.settings.Listeners
	s.mu.Unlock()
	for i := range listeners {
		if joins := listeners[i].Joins; joins != nil {
			all.Joins = append(all.Joins, joins.Joins(a.Unmap())...)
		}
	}
	return all, nil
}
