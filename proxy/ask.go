package proxy

import (
	"context"

	"tidegate/proxy/relay"
)

// Ask puts a request to the loops, one after another, and waits until it is answered, as long as ctx allows. After an
// error, the caller must not use the request: a loop may still do so. It is safe for concurrent use.
func (s *Server) Ask(ctx context.Context, q relay.Request) error {
	for i, work := q.Next(len(s.loops)); i >= 0; i, work = q.Next(len(s.loops)) {
		if err := s.loops[i].put(ctx, work, q); err != nil {
			return q.Err(err)
		}
	}
	return q.Err(nil)
}
