package upstream

import (
	"maps"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Pools holds the Pools of a proxy by the names of their upstreams. The zero value is ready to use. It is safe for
// concurrent use once Wake and Changed are set.
type Pools struct {
	// Wake makes the loop of a shard, or of all shards, call Relay.Advance soon. It does not block. It may be nil.
	Wake func(shard int)
	// Changed hears of a server that is Up, Failing, Refusing or Down from now on. It holds the Pool's lock: it does not
	// block, and calls no Pool. It may be nil.
	Changed func(Change)

	mu      sync.Mutex
	byName  map[string]*Pool
	fleet   map[string]map[netip.AddrPort]time.Time // drains of the fleet, by upstream
	counts  map[string]map[netip.AddrPort]int       // sessions of the fleet's other nodes, by upstream
	queued  []*Pool                                 // with queued sessions
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
		p.byName[name] = &Pool{pools: p, name: name, fleet: maps.Clone(p.fleet[name]), elsewhere: p.counts[name]}
	}
	return p.byName[name]
}

// SetFleetDrain drains a server in the name of the fleet, or ends the drain if since is zero. The upstream and the
// server may be unknown here: the drain holds as soon as the server is listed. The caller bounds the drains.
func (p *Pools) SetFleetDrain(name string, addr netip.AddrPort, since time.Time) {
	p.mu.Lock()
	p.fleet = withDrain(p.fleet, name, addr, since)
	pool := p.byName[name]
	p.mu.Unlock()
	if pool != nil {
		pool.setFleetDrain(addr, since)
	}
}

// SetFleetSessions replaces the counts of the sessions that other nodes of the fleet have, by upstream and server. Both
// may be unknown here. MaxSessions of a server bounds them together with this node's own. The caller bounds the counts,
// and does not change the maps any more.
func (p *Pools) SetFleetSessions(counts map[string]map[netip.AddrPort]int) {
	p.mu.Lock()
	p.counts = counts
	pools := maps.Clone(p.byName)
	p.mu.Unlock()
	for name, pool := range pools {
		pool.setFleetSessions(counts[name])
	}
}

func withDrain(all map[string]map[netip.AddrPort]time.Time, name string, addr netip.AddrPort, since time.Time,
) map[string]map[netip.AddrPort]time.Time {
	if all == nil {
		all = make(map[string]map[netip.AddrPort]time.Time)
	}
	if !since.IsZero() {
		if all[name] == nil {
			all[name] = make(map[netip.AddrPort]time.Time)
		}
		all[name][addr] = since
		return all
	}
	if delete(all[name], addr); len(all[name]) == 0 {
		delete(all, name)
	}
	return all
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

// SavedPool is the health of a Pool's servers as plain data. Sessions are not part of it.
type SavedPool struct {
	Upstream string        `cbor:"1,keyasint"`
	Turn     int           `cbor:"2,keyasint,omitempty"`
	Servers  []savedServer `cbor:"3,keyasint,omitempty"`
}

type savedServer struct {
	Addr  netip.AddrPort `cbor:"1,keyasint"`
	Heard time.Time      `cbor:"2,keyasint,omitempty"`
	health
}

// Save returns the health of all servers of all Pools as plain data.
func (p *Pools) Save() (all []SavedPool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, pool := range p.byName {
		all = append(all, pool.save(name))
	}
	return all
}

func (p *Pool) save(name string) SavedPool {
	p.mu.Lock()
	defer p.mu.Unlock()
	v := SavedPool{Upstream: name, Turn: p.turn}
	for _, s := range p.servers {
		one := savedServer{Addr: s.Addr, health: s.health}
		if at := s.heard.Load(); at != 0 {
			one.Heard = origin.Add(time.Duration(at))
		}
		v.Servers = append(v.Servers, one)
	}
	return v
}

// Restore sets the health of the servers that another process had too.
func (p *Pools) Restore(saved []SavedPool) {
	for i := range saved {
		p.Get(saved[i].Upstream).restore(&saved[i])
	}
}

func (p *Pool) restore(v *SavedPool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if v.Turn >= 0 && v.Turn < max(len(p.servers), 1) {
		p.turn = v.Turn
	}
	for i := range v.Servers {
		one := &v.Servers[i]
		n := slices.IndexFunc(p.servers, func(s *Server) bool { return s.Addr == one.Addr })
		if n < 0 {
			continue
		}
		s := p.servers[n]
		s.health = one.health
		s.failures, s.excused, s.trouble.turned = max(s.failures, 0), max(s.excused, 0), max(s.trouble.turned, 0)
		s.trouble.told = min(s.trouble.told, stateCount-1)
		if p.options.Fall == 0 {
			s.downAt = time.Time{}
		}
		if !one.Heard.IsZero() {
			s.Heard(one.Heard)
		}
	}
}
