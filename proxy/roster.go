package proxy

import (
	"cmp"
	"context"
	"slices"
	"time"

	"tidegate/proxy/relay"
	"tidegate/proxy/stats"
	sessions "tidegate/session"
)

// Sessions returns the sessions that the query selects, oldest first. A loop looks at its sessions in some turns.
func (s *Server) Sessions(ctx context.Context, q relay.Query) ([]relay.Session, error) {
	var all []relay.Session
	for _, l := range s.loops {
		var some relay.Pages
		if err := l.walk(ctx, stats.WorkList, q.Listing(&some)); err != nil {
			return nil, err
		}
		all = append(all, slices.Concat(some...)...)
	}
	slices.SortFunc(all, func(a, b relay.Session) int { return cmp.Compare(a.ID, b.ID) })
	return all[:min(len(all), q.Limit)], nil
}

// Session returns one session, or ErrNoSession.
func (s *Server) Session(ctx context.Context, id sessions.ID) (found relay.Session, err error) {
	err = s.atHome(ctx, id, func(r *relay.Relay, now time.Time, e *relay.Entry) error {
		found = r.Describe(now, e)
		return nil
	})
	return found, err
}

// Kick ends a session. The client learns that it was kicked, and gets the text where its protocol can carry one. A
// client of a route in ModeRelay learns nothing.
func (s *Server) Kick(ctx context.Context, id sessions.ID, text string) error {
	return s.atHome(ctx, id, func(r *relay.Relay, now time.Time, e *relay.Entry) error { return r.Kick(now, e, text) })
}

// atHome calls f with a session, on the loop that its ID belongs to. It returns ErrNoSession if there is none.
func (s *Server) atHome(ctx context.Context, id sessions.ID,
	f func(*relay.Relay, time.Time, *relay.Entry) error) error {
	result := relay.ErrNoSession
	l := s.loops[id.Shard(len(s.loops))]
	visit := relay.VisitSession(id, func(r *relay.Relay, now time.Time, e *relay.Entry) { result = f(r, now, e) })
	err := l.walk(ctx, stats.WorkList, visit)
	if err != nil {
		return err
	}
	return result
}
