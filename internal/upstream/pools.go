package upstream

import "sync"

// Pools are those of a proxy, by the names of their upstreams. The zero value is ready to use, and safe for concurrent
// use.
type Pools struct {
	mu     sync.Mutex
	byName map[string]*Pool
}

// Get returns the Pool of a name, which is made when it is first asked for.
func (p *Pools) Get(name string) *Pool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.byName == nil {
		p.byName = make(map[string]*Pool)
	}
	if p.byName[name] == nil {
		p.byName[name] = new(Pool)
	}
	return p.byName[name]
}
