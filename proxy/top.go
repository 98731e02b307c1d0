package proxy

import (
	"cmp"
	"context"
	"net/netip"
	"slices"
	"time"

	"tidegate/proxy/relay"
	"tidegate/proxy/stats"
)

// Top returns one page of the sessions in an order. A loop only looks at its sessions, in several turns. The caller's
// goroutine sorts. The page's sessions are copied by a second walk: one of them may have ended meanwhile.
func (s *Server) Top(ctx context.Context, q relay.TopQuery) (relay.Top, error) {
	var all relay.Ranks
	for _, l := range s.loops {
		var some relay.Ranks
		if err := l.walk(ctx, stats.WorkList, q.Ranking(&some)); err != nil {
			return relay.Top{}, err
		}
		all = append(all, some...)
	}
	page := q.Page(all)
	for _, l := range s.loops {
		if err := l.walk(ctx, stats.WorkList, page.Visit); err != nil {
			return relay.Top{}, err
		}
	}
	return relay.Top{Sessions: page.Sessions(), Total: len(all)}, nil
}

// Refused returns the last drops that the loops remember, of at most the given number of sources. Sources with the
// most drops come first.
func (s *Server) Refused(ctx context.Context, sources int) ([]stats.RecentDrop, error) {
	var all []stats.RecentDrop
	for _, l := range s.loops {
		var some []stats.RecentDrop
		err := l.consult(ctx, stats.WorkWhy, func(r *relay.Relay, _ time.Time) { some = r.RecentDrops() })
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	times := make(map[netip.Addr]uint64)
	for i := range all {
		times[all[i].From.Addr()] += all[i].Times
	}
	slices.SortFunc(all, func(a, b stats.RecentDrop) int {
		x, y := a.From.Addr(), b.From.Addr()
		return cmp.Or(cmp.Compare(times[y], times[x]), x.Compare(y), b.At.Compare(a.At))
	})
	for i := range all {
		if i > 0 && all[i].From.Addr() != all[i-1].From.Addr() {
			if sources--; sources == 0 {
				return all[:i], nil
			}
		}
	}
	return all, nil
}
