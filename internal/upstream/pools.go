package upstream

import (
	"slices"
	"sync"
	"sync/atomic"
)

// Pools are those of a proxy, by the names of their upstreams. The zero value is ready to use, and safe for concurrent
// use once Wake is set.
type Pools struct {
	// Wake has the loop of a shard, or of all shards, call Relay.Advance soon, and does not wait. It may be nil.
	Wake func(shard int)

	mu      sync.Mutex
	byName  map[string]*Pool
	lined   []*Pool // in which sessions are in line
	stirred atomic.Uint64
}

// AllShards is what Pools.Wake is told where each Relay may have something to do.
const AllShards = -1

// Get returns the Pool of a name, which is made when it is first asked for.
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

// WithQueues returns the Pools in which sessions are in line.
func (p *Pools) WithQueues() []*Pool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.lined)
}

// Changes grows when a Relay may have something to do for sessions that are in line.
func (p *Pools) Changes() uint64 { return p.stirred.Load() }

// stir tells the Relay of a shard, or all of them, that there may be something to do.
func (p *Pools) stir(shard int) {
	if p == nil {
		return
	}
	p.stirred.Add(1)
	if p.Wake != nil {
		p.Wake(shard)
	}
}

// enlist notes that a Pool has a line.
func (p *Pools) enlist(pool *Pool) {
	if p != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.lined = append(p.lined, pool)
	}
}

// discharge notes that a Pool has no line any more.
func (p *Pools) discharge(pool *Pool) {
	if p != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.lined = slices.DeleteFunc(p.lined, func(o *Pool) bool { return o == pool })
	}
}
