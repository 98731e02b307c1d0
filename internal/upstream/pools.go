package upstream

import (
	"slices"
	"sync"
	"sync/atomic"
)

// Pools holds the Pools of a proxy by the names of their upstreams. The zero value is ready to use. It is safe for
// concurrent use once Wake is set.
type Pools struct {
	// Wake makes the loop of a shard, or of all shards, call Relay.Advance soon. It does not block. It may be nil.
	Wake func(shard int)

	mu      sync.Mutex
	byName  map[string]*Pool
	queued  []*Pool // with queued sessions
	changes atomic.Uint64
}

// AllShards is the argument of Pools.Wake that stands for every Relay.
const AllShards = -1

// Get returns the Pool with this name. The first call makes it.
func (p *Pools) Get(name string) *Pool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.byName == nil {
		p.byName = make(map[string]*Pool)
	}
	if p.byName[name] == nil {
		p.byName[name] = &Pool{pools: p}
	}
	return p.byName[name]
}

// WithQueues returns the Pools that have queued sessions.
func (p *Pools) WithQueues() []*Pool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.queued)
}

// Changes returns a counter. It grows when a Relay may have something to do for queued sessions.
func (p *Pools) Changes() uint64 { return p.changes.Load() }

// notify tells the Relay of a shard, or all Relays, that there may be something to do.
func (p *Pools) notify(shard int) {
	if p == nil {
		return
	}
	p.changes.Add(1)
	if p.Wake != nil {
		p.Wake(shard)
	}
}

// addQueued notes that a Pool has queued sessions.
func (p *Pools) addQueued(pool *Pool) {
	if p != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.queued = append(p.queued, pool)
	}
}

// removeQueued notes that a Pool has no queued sessions any more.
func (p *Pools) removeQueued(pool *Pool) {
	if p != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.queued = slices.DeleteFunc(p.queued, func(o *Pool) bool { return o == pool })
	}
}
