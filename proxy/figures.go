package proxy

import (
	"context"
	"time"

	"tidegate/internal/netio"
	"tidegate/proxy/relay"
	"tidegate/proxy/stats"
)

// Figures returns the totals of all loops. It waits for each loop's turn, as long as ctx allows. An error means that
// a loop has ended, or does not answer.
func (s *Server) Figures(ctx context.Context) (relay.Figures, error) {
	all := relay.Figures{Bans: s.options.Bans.Len()}
	for _, l := range s.loops {
		var one relay.Figures
		err := l.consult(ctx, stats.WorkFigures, func(r *relay.Relay, now time.Time) {
			one = r.Figures()
			one.Sockets = []netio.Stats{l.sockets()}
			one.Turns = l.turns.Histogram
			one.Longest = []stats.LongTurn{l.turns.Longest(now)}
		})
		if err != nil {
			return relay.Figures{}, err
		}
		all.Add(&one)
	}
	all.Kernel = stats.ReadKernel(s.options.Kernel.Shield, s.options.Kernel.Flows)
	all.Counters.AddForwarded(&all.Kernel)
	return all, nil
}
