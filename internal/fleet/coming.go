package fleet

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"tidegate/internal/stray"
)

// Bounds of sessions that other nodes have offered.
const (
	comingTime = 10 * time.Second // for which an offered session waits
	maxComing  = 64 << 20         // bytes

	mostAnswers = 256 // that wait for the proxy; the other node asks again
)

// coming are the sessions that other nodes have offered. This node has none of them until the other node gives it.
type coming struct {
	proxy Players
	node  string // this one
	taken atomic.Uint64
	waits atomic.Int32 // answers that wait for the proxy

	mu       sync.Mutex
	sessions map[stray.Key]*offered
	size     int
}

type offered struct {
	node, move string
	size       int
	at         time.Time
	given      *given // nil: only offered
}

// given are sessions that the proxy takes in.
type given struct {
	done  chan struct{} // closed when taken is complete
	taken map[stray.Key]bool
}

func newComing(proxy Players, node string) *coming {
	return &coming{proxy: proxy, node: node, sessions: make(map[stray.Key]*offered)}
}

// offer notes the sessions that the proxy can take in.
func (c *coming) offer(ctx context.Context, now time.Time, m *moveWire) []bool {
	records := make([][]byte, len(m.Sessions))
	for i, s := range m.Sessions {
		records[i] = s.Record
	}
	faults, can := c.proxy.CheckPlayers(ctx, records), make([]bool, len(records))
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, s := range m.Sessions {
		last := c.sessions[s.Client]
		if faults[i] != nil || last != nil && last.given == nil && last.node != m.Node {
			continue
		}
		if last != nil {
			c.drop(s.Client)
		}
		if c.size+len(s.Record) > maxComing {
			continue
		}
		c.sessions[s.Client] = &offered{node: m.Node, move: m.Move, size: len(s.Record), at: now}
		c.size += len(s.Record)
		can[i] = true
	}
	return can
}

// give begins to take offered sessions in. Datagrams that the proxy gets after the call find them. The function that
// it returns waits for the answer, which is nil if ctx is done first. The same step again has the same answer.
func (c *coming) give(now time.Time, m *moveWire) (answer func(ctx context.Context) []bool) {
	g, of := &given{done: make(chan struct{}), taken: make(map[stray.Key]bool)}, make([]*given, len(m.Sessions))
	var all []stray.Session
	c.mu.Lock()
	for i, one := range m.Sessions {
		s := c.sessions[one.Client]
		if s == nil || s.node != m.Node || s.move != m.Move {
			continue
		}
		if s.given == nil {
			c.size -= s.size
			s.size, s.at, s.given = 0, now, g
			all = append(all, stray.Session{Client: one.Client, At: c.whereIs(m, &one), Record: one.Record})
		}
		of[i] = s.given
	}
	c.mu.Unlock()
	if len(all) > 0 {
		faults := c.proxy.PutInPlayers(all)
		go func() {
			defer close(g.done)
			for i, err := range faults(context.Background()) {
				if g.taken[all[i].Client] = err == nil; err == nil {
					c.taken.Add(1)
				}
			}
		}()
	}
	return func(ctx context.Context) []bool {
		taken := make([]bool, len(of))
		for i, g := range of {
			if g == nil {
				continue
			}
			select {
			case <-g.done:
				taken[i] = g.taken[m.Sessions[i].Client]
			case <-ctx.Done():
				return nil
			}
		}
		return taken
	}
}

// whereIs returns the node at which the datagrams of a session's client arrive; empty: this one.
func (c *coming) whereIs(m *moveWire, s *sessionWire) string {
	at := cmp.Or(s.At, m.Node)
	if at == c.node {
		return ""
	}
	return at
}

// drop forgets a session. The caller has the lock.
func (c *coming) drop(client stray.Key) {
	c.size -= c.sessions[client].size
	delete(c.sessions, client)
}

// expire forgets sessions after their time.
func (c *coming) expire(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for client, s := range c.sessions {
		if now.Sub(s.at) > comingTime {
			c.drop(client)
		}
	}
}

// later runs a function that waits for the proxy. It returns false if too many of them wait.
func (c *coming) later(do func()) bool {
	if c.waits.Add(1) > mostAnswers {
		c.waits.Add(-1)
		return false
	}
	go func() {
		defer c.waits.Add(-1)
		do()
	}()
	return true
}
