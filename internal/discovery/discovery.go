// Package discovery finds game servers and keeps telling which there are: those that a DNS name stands for, asked again
// when the answer's time is over, and those that a file lists, read again when it changes. Nobody waits for it: a source
// that cannot be read leaves what it said last in force.
//
// Start with Host, Service and File, which are where to look, and Watch.
package discovery

import (
	"context"
	"slices"
	"sync"

	"github.com/rs/zerolog"

	"tidegate/internal/upstream"
)

// Source is where servers are found.
type Source interface {
	// String is the source as it is configured.
	String() string
	// run calls tell with the servers found, or with why there is no news, until ctx is done.
	run(ctx context.Context, tell func([]upstream.Target, error))
}

// Watch calls found with the servers of all sources together whenever they change, until ctx is done. It returns at once.
// Calls follow one another.
func Watch(ctx context.Context, sources []Source, log zerolog.Logger, found func([]upstream.Target)) {
	w := &watch{found: found, log: log, lists: make([][]upstream.Target, len(sources)), failed: make([]bool, len(sources))}
	for i, source := range sources {
		go source.run(ctx, func(list []upstream.Target, err error) { w.tell(ctx, i, source, list, err) })
	}
}

// watch joins what sources tell.
type watch struct {
	found func([]upstream.Target)
	log   zerolog.Logger

	mu     sync.Mutex // guards what follows, and calls of found
	lists  [][]upstream.Target
	failed []bool
}

func (w *watch) tell(ctx context.Context, i int, source Source, list []upstream.Target, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		if !w.failed[i] { // once, not every time
			w.log.Warn().Stringer("source", source).Int("servers", len(w.lists[i])).Err(err).
				Msg("servers not discovered; those found before stay")
		}
		w.failed[i] = true
		return
	}
	w.failed[i] = false
	slices.SortFunc(list, func(a, b upstream.Target) int { return a.Addr.Compare(b.Addr) })
	list = slices.CompactFunc(list, func(a, b upstream.Target) bool { return a.Addr == b.Addr })
	if slices.Equal(list, w.lists[i]) {
		return
	}
	w.lists[i] = list
	w.log.Info().Stringer("source", source).Int("servers", len(list)).Msg("servers discovered")
	w.found(slices.Concat(w.lists...))
}
