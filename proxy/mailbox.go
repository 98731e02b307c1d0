package proxy

import (
	"context"
	"errors"
	"fmt"
	"time"

	"tidegate/internal/netio"
	"tidegate/proxy/relay"
	"tidegate/proxy/stats"
)

// ErrStopped reports that the proxy, or a part of it, no longer runs.
var ErrStopped = errors.New("the proxy has stopped")

// post makes the loop call f on its own goroutine, between batches. It returns false if the loop has ended. It is
// safe for concurrent use.
func (l *loop) post(w stats.Work, f func(*relay.Relay, time.Time)) bool {
	select {
	case l.mailbox <- command{w, f}:
		l.poller.Wake()
		return true
	case <-l.done:
		return false
	}
}

// ask posts f and waits until f has been called or the loop has ended. It reports whether f was called.
func (l *loop) ask(w stats.Work, f func(*relay.Relay, time.Time)) bool {
	return l.consult(context.Background(), w, f) == nil
}

// consult is ask with a limit: it waits until ctx is done. The caller must not use f after an error, since the loop
// may call it later.
func (l *loop) consult(ctx context.Context, w stats.Work, f func(*relay.Relay, time.Time)) error {
	called := make(chan struct{})
	do := func(r *relay.Relay, now time.Time) {
		f(r, now)
		close(called)
	}
	select {
	case l.mailbox <- command{w, do}:
		l.poller.Wake()
	case <-l.done:
		return ErrStopped
	case <-ctx.Done():
		return fmt.Errorf("%w: a loop does not answer", ctx.Err())
	}
	return l.await(ctx, called)
}

// await waits until the loop closes a channel, or ends, or ctx is done.
func (l *loop) await(ctx context.Context, closes <-chan struct{}) error {
	select {
	case <-closes:
		return nil
	case <-l.done:
		if isClosed(closes) { // the command may have ended the loop
			return nil
		}
		return ErrStopped
	case <-ctx.Done():
		return fmt.Errorf("%w: a loop does not answer", ctx.Err())
	}
}

// put puts a request to the loop's Relay, and waits until the Relay has answered or ctx is done. After an error, the
// caller must not use the request: the loop may still do so.
func (l *loop) put(ctx context.Context, w stats.Work, q relay.Request) error {
	ended := make(chan struct{})
	err := l.consult(ctx, w, func(r *relay.Relay, now time.Time) {
		r.Ask(now, q, func() bool { return ctx.Err() == nil }, func() { close(ended) })
	})
	if err != nil {
		return err
	}
	return l.await(ctx, ended)
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// readMail does the commands that wait. Later ones have the next turn: work that its caller has divided into slices
// would otherwise run in one turn.
func (l *loop) readMail() {
	for range len(l.mailbox) {
		if l.left {
			return
		}
		c := <-l.mailbox
		c.do(l.relay, l.clock.now)
		l.lap(c.work)
	}
}

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
