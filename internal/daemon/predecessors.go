package daemon

import (
	"fmt"
	"io"
	"os"
	"slices"
	"sync"

	"tidegate/internal/netio"
)

// predecessors are the earlier processes that may still have sessions at the listeners' addresses. Each holds one end
// of a pipe until it ends. A successor also gets the other ends, because a predecessor may outlive the processes
// between them.
type predecessors struct {
	gone chan struct{} // closed when no predecessor is left

	mu    sync.Mutex
	pipes []*os.File
}

func newPredecessors(pipes ...*os.File) *predecessors {
	return &predecessors{gone: make(chan struct{}), pipes: pipes}
}

// add adds a pipe before watch.
func (p *predecessors) add(pipe *os.File) { p.pipes = append(p.pipes, pipe) }

// watch waits in the background for the ends of the predecessors.
func (p *predecessors) watch() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, pipe := range p.pipes {
		go p.await(pipe)
	}
}

func (p *predecessors) await(pipe *os.File) {
	_, _ = io.Copy(io.Discard, pipe) // each error means the end
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = pipe.Close()
	p.pipes = slices.DeleteFunc(p.pipes, func(other *os.File) bool { return other == pipe })
	if len(p.pipes) == 0 {
		close(p.gone)
	}
}

// copies returns copies of the living predecessors' pipes, for a successor. The caller closes them.
func (p *predecessors) copies() (all []*os.File, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, pipe := range p.pipes {
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
