package proxy

import (
	"context"
	"time"

	"tidegate/proxy/relay"
	"tidegate/proxy/stats"
	"tidegate/ratelimit"
)

// ChargeSpending charges sources what they have used of limits at other nodes. It takes several reports of one source
// as those of several nodes. It does not wait for the loops.
func (s *Server) ChargeSpending(reports []ratelimit.Spending, p ratelimit.Peers) {
	for _, l := range s.loops {
		l.post(stats.WorkLimits, func(r *relay.Relay, now time.Time) { r.Charge(now, reports, p) })
	}
}

// TakeSpending returns what the sources with the largest use have used of their limits since the last call, the largest
// first. It waits for each loop's turn, as long as ctx allows.
func (s *Server) TakeSpending(ctx context.Context, most int, p ratelimit.Peers) ([]ratelimit.Spending, error) {
	var all []ratelimit.Spending
	for _, l := range s.loops {
		var part []ratelimit.Spending
		err := l.consult(ctx, stats.WorkLimits, func(r *relay.Relay, _ time.Time) {
			part = r.Spending(p)
		})
		if err != nil {
			return nil, err
		}
		all = append(all, part...)
	}
	return ratelimit.Top(all, most), nil
}
