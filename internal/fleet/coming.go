package fleet

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"tidegate/internal/stray"
)

// Bounds of sessions that other nodes have offered.
const (
	comingTime = 10 * time.Second // for which an offered session waits
	maxComing  = 64 << 20         // bytes
)

// coming are the sessions that other nodes have offered. This node has none of them until the other node gives it, or
// passes on a datagram of its client, which it does only then.
type coming struct {
	proxy Players
	some  atomic.Bool // there are sessions

	mu       sync.Mutex
	sessions map[stray.Key]*offered
	size     int
	given    map[stray.Key]givenTo // answers that may have been lost
	taken    atomic.Uint64
}

type offered struct {
	node, move string
	record     []byte
	at         time.Time
}

type givenTo struct {
	move string
	ok   bool
	at   time.Time
}

func newComing(proxy Players) *coming {
	return &coming{proxy: proxy, sessions: make(map[stray.Key]*offered), given: make(map[stray.Key]givenTo)}
}

// step does a step of another node's move, and answers it.
func (c *coming) step(ctx context.Context, now time.Time, m *moveWire) []bool {
	clients := make([]stray.Key, len(m.Sessions))
	for i, s := range m.Sessions {
		clients[i] = s.Client
	}
	switch m.Step {
	case stepOffer:
		return c.offer(ctx, now, m)
	case stepGive:
		return c.give(ctx, now, m.Node, m.Move, clients)
	}
	c.withdraw(m.Node, m.Move, clients)
	return make([]bool, len(clients))
}

// offer keeps the sessions that the proxy can take in.
func (c *coming) offer(ctx context.Context, now time.Time, m *moveWire) []bool {
	records := make([][]byte, len(m.Sessions))
	for i, s := range m.Sessions {
		records[i] = s.Record
	}
	faults, taken := c.proxy.CheckPlayers(ctx, records), make([]bool, len(records))
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, s := range m.Sessions {
		if faults[i] != nil || c.sessions[s.Client] != nil || c.size+len(s.Record) > maxComing {
			continue
		}
		c.sessions[s.Client] = &offered{m.Node, m.Move, s.Record, now}
		c.size += len(s.Record)
		taken[i] = true
	}
	c.some.Store(len(c.sessions) > 0)
	return taken
}

// give takes offered sessions in. The same step again has the same answer.
func (c *coming) give(ctx context.Context, now time.Time, node, move string, clients []stray.Key) []bool {
	taken := make([]bool, len(clients))
	var records [][]byte
	var of []int // their places
	c.mu.Lock()
	for i, client := range clients {
		if s := c.sessions[client]; s != nil && s.node == node && s.move == move {
			c.drop(client)
			records, of = append(records, s.record), append(of, i)
		} else {
			last := c.given[client]
			taken[i] = last.ok && last.move == move
		}
	}
	c.mu.Unlock()
	if len(records) == 0 {
		return taken
	}
	faults := c.proxy.PutInPlayers(ctx, records)
	c.mu.Lock()
	defer c.mu.Unlock()
	for n, i := range of {
		taken[i] = faults[n] == nil
		c.given[clients[i]] = givenTo{move, taken[i], now}
		if taken[i] {
			c.taken.Add(1)
		}
	}
	return taken
}

func (c *coming) withdraw(node, move string, clients []stray.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, client := range clients {
		if s := c.sessions[client]; s != nil && s.node == node && s.move == move {
			c.drop(client)
		}
	}
}

// heard takes in the offered sessions whose clients' datagrams the other node passes on: it has given them.
func (c *coming) heard(ctx context.Context, now time.Time, node string, secret stray.Secret, all []stray.Datagram) {
	if !c.some.Load() {
		return
	}
	for i := range all {
		key := secret.Key(all[i].Listener, all[i].Client)
		c.mu.Lock()
		s := c.sessions[key]
		c.mu.Unlock()
		if s != nil && s.node == node {
			c.give(ctx, now, node, s.move, []stray.Key{key})
		}
	}
}

// drop forgets a session. The caller has the lock.
func (c *coming) drop(client stray.Key) {
	c.size -= len(c.sessions[client].record)
	delete(c.sessions, client)
	c.some.Store(len(c.sessions) > 0)
}

// expire forgets sessions and answers after their time.
func (c *coming) expire(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for client, s := range c.sessions {
		if now.Sub(s.at) > comingTime {
			c.drop(client)
		}
	}
	for client, g := range c.given {
		if now.Sub(g.at) > comingTime {
			delete(c.given, client)
		}
	}
}

// takeMove answers a step of another node. The library calls it.
func (p *players) takeMove(m *nats.Msg) {
	move, err := parseMove(m.Data)
	if err == nil && !p.where.knows(move.Node) {
		err = errNode
	}
	if err != nil {
		p.refuse("?", err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), moveTime)
	defer cancel()
	answer, err := json.Marshal(movedWire{p.coming.step(ctx, time.Now(), move)})
	if err == nil {
		err = m.Respond(answer)
	}
	if err != nil {
		p.log.Debug().Err(err).Msg("move of sessions not answered")
	}
}
