package upstream

import (
	"maps"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"tidegate/internal/record"
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
	Addr      netip.AddrPort `cbor:"1,keyasint"`
	Heard     record.Moment  `cbor:"2,keyasint,omitempty"`
	Credit    int            `cbor:"3,keyasint,omitempty"`
	Drained   record.Moment  `cbor:"4,keyasint,omitempty"`
	Down      record.Moment  `cbor:"5,keyasint,omitempty"`
	Failed    record.Moment  `cbor:"6,keyasint,omitempty"`
	RestUntil record.Moment  `cbor:"7,keyasint,omitempty"`
	Failures  int            `cbor:"8,keyasint,omitempty"`
	Excused   int            `cbor:"9,keyasint,omitempty"`
	Cause     string         `cbor:"10,keyasint,omitempty"`
	AskAt     record.Moment  `cbor:"11,keyasint,omitempty"`
	Streak    int            `cbor:"12,keyasint,omitempty"`
	Checked   record.Moment  `cbor:"13,keyasint,omitempty"`
	RTT       time.Duration  `cbor:"14,keyasint,omitempty"`
	Up        record.Moment  `cbor:"15,keyasint,omitempty"`
	Passed    bool           `cbor:"16,keyasint,omitempty"`
	Missed    record.Moment  `cbor:"17,keyasint,omitempty"`
	Last      record.Moment  `cbor:"18,keyasint,omitempty"`
	Turned    int            `cbor:"19,keyasint,omitempty"`
	Since     record.Moment  `cbor:"20,keyasint,omitempty"`
	Told      State          `cbor:"21,keyasint,omitempty"`
}

// Save returns the health of all servers of all Pools as plain data.
func (p *Pools) Save(now time.Time) (all []SavedPool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, pool := range p.byName {
		all = append(all, pool.save(name, now))
	}
	return all
}

func (p *Pool) save(name string, now time.Time) SavedPool {
	p.mu.Lock()
	defer p.mu.Unlock()
	v := SavedPool{Upstream: name, Turn: p.turn}
	for _, s := range p.servers {
		one := savedServer{
			Addr: s.Addr, Credit: s.credit, Drained: record.MomentOf(now, s.drainedAt), Down: record.MomentOf(now, s.downAt),
			Failed: record.MomentOf(now, s.failedAt), RestUntil: record.MomentOf(now, s.restUntil), Failures: s.failures,
			Excused: s.excused, Cause: s.cause, AskAt: record.MomentOf(now, s.askAt), Streak: s.streak,
			Checked: record.MomentOf(now, s.checkedAt), RTT: s.rtt, Up: record.MomentOf(now, s.upAt), Passed: s.passed,
			Missed: record.MomentOf(now, s.trouble.at), Last: record.MomentOf(now, s.trouble.last), Turned: s.trouble.turned,
			Since: record.MomentOf(now, s.trouble.since), Told: s.trouble.told,
		}
		if at := s.heard.Load(); at != 0 {
			one.Heard = record.MomentOf(now, origin.Add(time.Duration(at)))
		}
		v.Servers = append(v.Servers, one)
	}
	return v
}

// Restore sets the health of the servers that another process had too.
func (p *Pools) Restore(now time.Time, saved []SavedPool) {
	for i := range saved {
		p.Get(saved[i].Upstream).restore(now, &saved[i])
	}
}

func (p *Pool) restore(now time.Time, v *SavedPool) {
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
		s.drainedAt, s.failedAt, s.restUntil = one.Drained.Time(now), one.Failed.Time(now), one.RestUntil.Time(now)
		s.credit, s.failures, s.excused, s.cause = one.Credit, max(one.Failures, 0), max(one.Excused, 0), one.Cause
		s.askAt, s.streak, s.checkedAt = one.AskAt.Time(now), one.Streak, one.Checked.Time(now)
		s.rtt, s.upAt, s.passed = one.RTT, one.Up.Time(now), one.Passed
		s.trouble = trouble{
			at: one.Missed.Time(now), last: one.Last.Time(now), turned: max(one.Turned, 0), since: one.Since.Time(now),
			told: min(one.Told, stateCount-1),
		}
		if p.options.Fall > 0 {
			s.downAt = one.Down.Time(now)
		}
		if one.Heard != 0 {
			s.Heard(one.Heard.Time(now))
		}
	}
}
