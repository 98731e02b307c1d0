package proxy

import (
	"cmp"
	"context"
	"time"

	"tidegate/proxy/stats"
)

// Watch returns the state of a session. The first call begins to count its messages by kind, until Unwatch or the
// session's end. With too many watches, the oldest counts stay and the session has none.
func (s *Server) Watch(ctx context.Context, id SessionID) (Watched, error) {
	var found *Watched
	l := s.loops[id.Shard(len(s.loops))]
	err := l.consult(ctx, stats.WorkList, func(r *Relay, now time.Time) {
		found = r.Watched(now, id)
	})
	if found != nil || err != nil {
		return *cmp.Or(found, new(Watched)), err
	}
	err = s.atHome(ctx, id, func(r *Relay, now time.Time, e *entry) error {
		found = r.Watch(now, e)
		return nil
	})
	return *cmp.Or(found, new(Watched)), err
}

// Unwatch ends the count of a session's messages. It does not wait.
func (s *Server) Unwatch(id SessionID) {
	s.loops[id.Shard(len(s.loops))].post(stats.WorkList, func(r *Relay, _ time.Time) { r.Unwatch(id) })
}
