package proxy

import (
	"context"
	"errors"
	"time"

	"tidegate/proxy/relay"
	"tidegate/proxy/relay/recording"
	sessions "tidegate/session"
)

// Errors of a capture.
var (
	ErrNoRoute  = errors.New("no such route")
	ErrCaptures = errors.New("as many captures as there may be at a time are running")
)

// mostCaptures bounds the captures that run at a time. Each takes up to MaxSpool of memory per loop, twice.
const mostCaptures = 4

// sessionLook is how often a capture of one session checks that the session still exists.
const sessionLook = time.Second

// Capture passes all datagrams that f selects to take, first an empty Catch once every loop captures. It ends without
// an error when ctx is done, the proxy has ended, or the session that f names has ended. A Catch is lent until take
// returns. Meanwhile the kernel does not forward the captured sessions.
func (s *Server) Capture(ctx context.Context, f recording.CaptureFilter, take func(*recording.Catch) error) error {
	if err := s.mayCapture(ctx, &f); err != nil {
		return err
	}
	if s.captures.Add(1) > mostCaptures {
		s.captures.Add(-1)
		return ErrCaptures
	}
	defer s.captures.Add(-1)
	c := recording.NewCapture(&f, len(s.loops))
	defer s.Begin(relay.EndCapture(c)) // also in a loop that does not have it yet
	if err := s.Ask(ctx, relay.StartCapture(c)); err != nil {
		return err
	}
	if err := take(new(recording.Catch)); err != nil {
		return err
	}
	return s.collect(ctx, f.Session, c, take)
}

// mayCapture returns an error if f names a session, route or upstream that does not exist. Such a capture would stay
// empty.
func (s *Server) mayCapture(ctx context.Context, f *recording.CaptureFilter) error {
	if f.Session != 0 {
		if err := s.Ask(ctx, &relay.ShowSession{ID: f.Session}); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var route, pool bool
	for i := range s.settings.Listeners {
		r := s.settings.Listeners[i].Route
		route = route || r.Name == f.Route
		pool = pool || r.Upstream.Name == f.Upstream
	}
	switch {
	case f.Route != "" && !route:
		return ErrNoRoute
	case f.Upstream != "" && !pool:
		return ErrNoUpstream
	}
	return nil
}

// collect takes what the loops have captured, until the capture ends.
func (s *Server) collect(ctx context.Context, id sessions.ID, c *recording.Capture,
	take func(*recording.Catch) error) error {
	ctx, stop := s.untilEnded(ctx)
	defer stop()
	look := time.NewTicker(sessionLook)
	defer look.Stop()
	for over := false; ; {
		if err := c.Take(take); err != nil || over {
			return err
		}
		select {
		case <-c.Ready:
		case <-ctx.Done():
			over = true
		case <-look.C:
			if id != 0 {
				over = errors.Is(s.Ask(ctx, &relay.ShowSession{ID: id}), relay.ErrNoSession)
			}
		}
	}
}

// untilEnded returns a context that is also done when all loops have ended.
func (s *Server) untilEnded(ctx context.Context) (context.Context, context.CancelFunc) {
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
