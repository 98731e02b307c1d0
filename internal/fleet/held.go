package fleet

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
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
