package proxy

import (
	"context"
	"errors"
	"fmt"
	"time"

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
