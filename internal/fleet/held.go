package fleet

import (
	"cmp"
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"tidegate/internal/each"
	"tidegate/internal/stray"
)

// heldTime is how long the players of a node that has joined stay with Held, unless other nodes reach it sooner.
const heldTime = 5 * time.Second

// Held has the players of other nodes, and this node's players whose datagrams arrive elsewhere, while a successor
// joins the fleet: only one process can be the node, and a game ends soon if nothing comes through. Held has a
// connection of its own, and with an embedded server a second server without streams. Its methods do nothing if it is
// nil.
type Held struct {
	began   time.Time
	players *players
	cancel  context.CancelFunc
	opened  chan struct{} // closed when connection is set
	ended   sync.WaitGroup

	connection *nats.Conn // nil: none
}

// HoldPlayers makes a successor's proxy pass the datagrams of other nodes' players on until it joins the fleet, and
// drop them while there is no connection. It comes before the loops run. Without a predecessor that followed players
// it returns nil.
func HoldPlayers(o *Options) *Held {
	if o.Players == nil || len(o.Pending.Players) == 0 {
		return nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	h := &Held{began: time.Now(), players: newPlayers(o), cancel: cancel, opened: make(chan struct{})}
	h.ended.Go(func() { h.run(ctx, o) })
	o.Players.HoldForFleet(h.players, h.players.secret)
	return h
}

// run is a part of the fleet until ctx is done.
func (h *Held) run(ctx context.Context, o *Options) {
	connection, server, err := connect(ctx, o)
	if err != nil {
		o.Log.Warn().Err(err).Msg("players of other nodes wait for the end of the upgrade")
	}
	p, sets := h.players, make(chan *nats.Msg, maxPending)
	if h.connection = connection; connection != nil {
		_, _ = connection.ChanSubscribe(p.subject("players.>"), sets) // a new connection has no error
		p.connection.Store(connection)
		h.ended.Go(func() { p.out.run(ctx, p.send) })
	}
	close(h.opened)
	tick := time.NewTicker(p.every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			if connection != nil {
				connection.Close()
			}
			server.stop()
			return
		case m := <-sets:
			p.hear(connection, strings.TrimPrefix(m.Subject, p.subject("players.")), m.Data)
		case now := <-tick.C:
			h.expire(now)
		}
	}
}

// expire forgets silent nodes, should the node not join. Without a connection all nodes are silent, so their players
// are held for the longer time: their protocols send again.
func (h *Held) expire(now time.Time) {
	if c := h.connection; c != nil && c.IsConnected() || now.Sub(h.began) >= forgetAfter {
		h.players.where.expire(now)
	}
}

func connect(ctx context.Context, o *Options) (connection *nats.Conn, server *embedded, err error) {
	if o.Embedded != nil {
		if server, err = newEmbedded(o, true); err != nil {
			return nil, nil, err
		}
		server.start(ctx)()
	}
	options, err := o.connection(server, func() {})
	if err != nil {
		return nil, server, err
	}
	connection, err = nats.Connect(strings.Join(o.Servers, ","), options...)
	return connection, server, err
}

// Begin begins to take what other nodes pass on. The loops run.
func (h *Held) Begin() {
	if h == nil {
		return
	}
	h.ended.Go(func() {
		<-h.opened
		if h.connection == nil {
			return
		}
		p := h.players
		_, err := h.connection.Subscribe(p.subject("strays."+p.node), func(m *nats.Msg) {
			if m.Reply == "" { // else a session, which only the node can take
				p.takeStrays(m)
			}
		})
		if err != nil {
			p.log.Warn().Err(err).Msg("players at other nodes wait for the end of the upgrade")
		}
	})
}

// End ends the part in the fleet.
func (h *Held) End() {
	if h != nil {
		h.cancel()
		h.ended.Wait()
	}
}

// begin uses a connection. As long as other nodes may not reach it yet, the connection of Held stays in use.
func (p *players) begin(connection *nats.Conn) {
	p.own = connection // before another goroutine calls letGo
	if p.held == nil {
		p.connection.Store(connection)
		return
	}
	<-p.held.opened
	if p.held.connection == nil {
		p.letGo()
		return
	}
	p.connection.Store(p.held.connection)
	time.AfterFunc(heldTime, p.letGo)
}

// letGo ends Held, if there is one: the node has joined.
func (p *players) letGo() {
	if p.held != nil && p.connection.Swap(p.own) != p.own {
		go p.held.End()
	}
}

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
	records := each.Of(m.Sessions, func(s sessionWire) []byte { return s.Record })
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
			at := cmp.Or(one.At, m.Node)
			if at == c.node {
				at = "" // this one
			}
			all = append(all, stray.Session{Client: one.Client, At: at, Record: one.Record})
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
