// Package discovery finds game servers and reports changes. It looks up DNS names again when an answer expires, reads
// files again when they change, and watches the API server of a Kubernetes cluster. It runs beside the loops, which
// never wait for it. If a source fails, its last result stays in force.
//
// Start with Host, Service, File, Endpoints and GameServers, which are sources, and Watch.
package discovery

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/rs/zerolog"

	"tidegate/internal/upstream"
)

// Source is a place where servers are found.
type Source interface {
	// String returns the source as configured.
	String() string
	// run calls tell with the servers found, or with an error if the lookup failed, until ctx is done.
	run(ctx context.Context, tell func([]upstream.Target, error))
}

// Watch calls found with the servers of all sources together whenever they change, until ctx is done. It returns at
// once. Calls of found do not overlap.
func Watch(ctx context.Context, sources []Source, log zerolog.Logger, found func([]upstream.Target)) {
	w := &watch{
		found: found, log: log, lists: make([][]upstream.Target, len(sources)), told: make([]bool, len(sources)),
		failed: make([]bool, len(sources)),
	}
	for i, source := range sources {
		go source.run(ctx, func(list []upstream.Target, err error) { w.tell(ctx, i, source, list, err) })
	}
}

// Ask returns the number of servers that a source has now.
func Ask(ctx context.Context, source Source) (servers int, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type result struct {
		servers int
		err     error
	}
	first := make(chan result, 1)
	go source.run(ctx, func(list []upstream.Target, err error) {
		select {
		case first <- result{len(list), err}:
		default: // a later one
		}
	})
	select {
	case r := <-first:
		return r.servers, r.err
	case <-ctx.Done():
		return 0, fmt.Errorf("no answer: %w", ctx.Err())
	}
}

// watch merges the results of the sources.
type watch struct {
	found func([]upstream.Target)
	log   zerolog.Logger

	mu     sync.Mutex // guards the fields below, and calls of found
	lists  [][]upstream.Target
	told   []bool // once without an error
	failed []bool
}

func (w *watch) tell(ctx context.Context, i int, source Source, list []upstream.Target, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		if !w.failed[i] { // log the first failure only
			w.log.Warn().Stringer("source", source).Int("servers", len(w.lists[i])).Err(err).
				Msg("server discovery failed; the last result stays")
		}
		w.failed[i] = true
		return
	}
	w.failed[i] = false
	slices.SortFunc(list, func(a, b upstream.Target) int { return a.Addr.Compare(b.Addr) })
	list = slices.CompactFunc(list, func(a, b upstream.Target) bool { return a.Addr == b.Addr })
	changed := !slices.Equal(list, w.lists[i])
	if changed || !w.told[i] { // the first list may be empty, which an operator wants to know
		w.log.Info().Stringer("source", source).Int("servers", len(list)).Msg("servers discovered")
	}
	w.told[i] = true
	if changed {
		w.lists[i] = list
		w.found(slices.Concat(w.lists...))
	}
}
