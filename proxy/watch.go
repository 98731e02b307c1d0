package proxy

import (
	"cmp"
	"context"
	"time"

	"tidegate/proxy/relay"
	"tidegate/proxy/stats"
	sessions "tidegate/session"
)

// Watch returns the state of a session. The first call begins to count its messages by kind, until Unwatch or the
// session's end. With too many watches, the oldest counts stay and the session has none.
func (s *Server) Watch(ctx context.Context, id sessions.ID) (relay.Watched, error) {
	var found *relay.Watched
	l := s.loops[id.Shard(len(s.loops))]
	err := l.consult(ctx, stats.WorkList, func(r *relay.Relay, now time.Time) {
		found = r.Watched(now, id)
	})
	if found != nil || err != nil {
		return *cmp.Or(found, new(relay.Watched)), err
	}
	err = s.atHome(ctx, id, func(r *relay.Relay, now time.Time, e *relay.Entry) error {
		found = r.Watch(now, e)
		return nil
	})
	return *cmp.Or(found, new(relay.Watched)), err
}

// Unwatch ends the count of a session's messages. It does not wait.
func (s *Server) Unwatch(id sessions.ID) {
	s.loops[id.Shard(len(s.loops))].post(stats.WorkList, func(r *relay.Relay, _ time.Time) { r.Unwatch(id) })
}
