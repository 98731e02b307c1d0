// Package pause waits for times, as long as a context allows.
package pause

import (
	"context"
	"iter"
	"time"
)

// For waits for a time. It reports false if ctx is done first.
func For(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// Every yields the time at once and then at an interval, until ctx is done.
func Every(ctx context.Context, interval time.Duration) iter.Seq[time.Time] {
	return func(yield func(time.Time) bool) {
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		if ctx.Err() == nil && yield(time.Now()) {
			On(ctx, ticker.C)(yield)
		}
	}
}

// On yields what comes from a channel, until ctx is done.
func On[T any](ctx context.Context, from <-chan T) iter.Seq[T] {
	return func(yield func(T) bool) {
		for {
			select {
			case <-ctx.Done():
				return
			case one := <-from:
				if ctx.Err() != nil || !yield(one) {
					return
				}
			}
		}
	}
}
