package fleet

import (
	"sync"
	"sync/atomic"

	"tidegate/internal/stray"
)

// limbo is the outbox of datagrams for sessions that are between two nodes.
const limbo = ""

// going are the sessions that have left this node.
type going struct {
	busy  sync.Mutex  // held while sessions move
	some  atomic.Bool // there are sessions
	mu    sync.RWMutex
	to    map[stray.Key]string // the node that has the session; limbo: not decided
	moved atomic.Uint64
}

func (g *going) set(client stray.Key, node string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.to == nil {
		g.to = make(map[stray.Key]string)
	}
	g.to[client] = node
	g.some.Store(true)
}

func (g *going) remove(client stray.Key) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.to, client)
	g.some.Store(len(g.to) > 0)
}

// find returns the node that a session has moved to.
func (g *going) find(client stray.Key) (node string, ok bool) {
	if !g.some.Load() {
		return "", false
	}
	g.mu.RLock()
	defer g.mu.RUnlock()
	node, ok = g.to[client]
	return node, ok
}
