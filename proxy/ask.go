package proxy

import (
	"context"
	"time"

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

// Begin puts a request to the loops, and waits for none of them. The function that it returns waits until all have
// answered, as long as ctx allows; after its error, the caller must not use the request. Begin is safe for concurrent
// use.
func (s *Server) Begin(q relay.Request) (wait func(ctx context.Context) error) {
	var all []func(context.Context) error
	for i, work := q.Next(len(s.loops)); i >= 0; i, work = q.Next(len(s.loops)) {
		l, ended := s.loops[i], make(chan struct{})
		l.post(work, func(r *relay.Relay, now time.Time) { // a loop that has ended does not do it
			r.Ask(now, q, func() bool { return true }, func() { close(ended) })
		})
		all = append(all, func(ctx context.Context) error { return l.await(ctx, ended) })
	}
	return func(ctx context.Context) error {
		for _, one := range all {
			if err := one(ctx); err != nil {
				return q.Err(err)
			}
		}
		return q.Err(nil)
	}
}

// UntilEnded returns a context that is also done when all loops have ended.
func (s *Server) UntilEnded(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := context.WithCancel(ctx)
	go func() {
		defer stop()
		for _, l := range s.loops {
			select {
			case <-l.done:
			case <-ctx.Done():
				return
			}
		}
	}()
	return ctx, stop
}

// Shared returns what the loops share.
func (s *Server) Shared() *relay.Shared { return s.shared }
