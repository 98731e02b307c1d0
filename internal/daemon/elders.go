package daemon

import (
	"fmt"
	"io"
	"os"
	"slices"
	"sync"

	"tidegate/internal/netio"
)

// elders are the earlier processes that may still have sessions at the listeners' addresses. Each holds one end of a pipe
// until it ends. A successor gets the other ends too: an elder may outlive the processes between them.
type elders struct {
	gone chan struct{} // closed when none is left

	mu    sync.Mutex
	pipes []*os.File
}

func newElders(pipes ...*os.File) *elders {
	return &elders{gone: make(chan struct{}), pipes: pipes}
}

// add is for before watch.
func (e *elders) add(pipe *os.File) { e.pipes = append(e.pipes, pipe) }

// watch waits for the ends of the elders, in the background.
func (e *elders) watch() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, pipe := range e.pipes {
		go e.await(pipe)
	}
}

func (e *elders) await(pipe *os.File) {
	_, _ = io.Copy(io.Discard, pipe) // any error is the end
	e.mu.Lock()
	defer e.mu.Unlock()
	_ = pipe.Close()
	e.pipes = slices.DeleteFunc(e.pipes, func(p *os.File) bool { return p == pipe })
	if len(e.pipes) == 0 {
		close(e.gone)
	}
}

// copies returns copies of the pipes of the elders that live, for a successor. The caller closes them.
func (e *elders) copies() (all []*os.File, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, pipe := range e.pipes {
		c, err := netio.Duplicate(pipe)
		if err != nil {
			closeFiles(all)
			return nil, fmt.Errorf("copy pipe of an earlier process: %w", err)
		}
		all = append(all, c)
	}
	return all, nil
}

func closeFiles(files []*os.File) {
	for _, f := range files {
		_ = f.Close() // nothing is written to them
	}
}
