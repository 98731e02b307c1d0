package fleet

import (
	"context"
	"slices"
	"time"

	"tidegate/ratelimit"
)

// Status returns the present state.
func (f *Fleet) Status() Status {
	f.mu.Lock()
	s := f.status
	f.mu.Unlock()
	f.drains.addTo(&s)
	return s
}

// DrainedServers returns the game servers that the fleet drains, in order.
func (f *Fleet) DrainedServers() []Drain { return f.drains.list() }

// Ban is a ban that the fleet knows.
type Ban struct {
	ratelimit.Ban
	Node string // where it was imposed
}

// BansInForce returns the bans in force, by network. It waits for the fleet's goroutine, or until ctx is done.
func (f *Fleet) BansInForce(ctx context.Context) ([]Ban, error) {
	var all []Ban
	answered := make(chan struct{})
	ask := func() {
		defer close(answered)
		now := time.Now()
		for _, e := range f.ledger.entries {
			if !e.removed && e.ban.Active(now) {
				all = append(all, Ban{e.ban, e.node})
			}
		}
	}
	select {
	case f.asks <- ask:
		<-answered
	case <-f.ended:
		return nil, errEnded
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	slices.SortFunc(all, func(a, b Ban) int { return a.Prefix.Compare(b.Prefix) })
	return all, nil
}
