// Package fleet shares the bans, the drains, the counts of sessions and the limits of several Tidegates by NATS. It is
// the only package that knows NATS. A node works on from its own state while NATS is away.
//
// Start with Start. sync.go keeps a bucket of NATS and a ledger equal: bans.go shares bans so, and drains.go drains.
// bucket.go talks to NATS. gossip.go exchanges reports without a bucket: counts.go counts of sessions, and budgets.go
// what sources have used of limits. players.go follows players whose path leads to another node: whereabouts.go knows
// which node has them, and outboxes.go has the datagrams that are passed on. moves.go moves sessions to other nodes,
// and held.go takes them. embedded.go runs a NATS server in this process. options.go has the settings, and node.go what
// all parts share.
package fleet

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"tidegate/internal/fleet/view"
)

// Fleet is a node's part in a fleet. Its methods are safe for concurrent use. A nil Fleet has no state and no nodes.
type Fleet struct {
	Options
	ended   chan struct{} // closed when nothing is shared any more
	server  *embedded     // nil: none
	parts   []part
	bans    *bans
	drains  *drains  // nil: not shared
	counts  *counts  // nil: not shared
	players *players // nil: not followed

	mu         sync.Mutex
	fault      string     // why nothing is shared until a restart
	connection *nats.Conn // nil: not open yet
}

// part is something that a Fleet shares.
type part interface {
	// start shares until ctx is done. The function that it returns waits for the end.
	start(ctx context.Context, connection *nats.Conn) (wait func())
	addTo(s *view.Fleet)
}

// Start joins the fleet. It does not wait for NATS. The function stop leaves the fleet, and waits until the last
// changes are sent or a short time has passed. An error means that a file of Options cannot be used.
func Start(o Options) (f *Fleet, stop func(), err error) {
	f = &Fleet{Options: o, ended: make(chan struct{})}
	if o.Embedded != nil {
		if f.server, err = newEmbedded(&o, false); err != nil {
			return nil, nil, err
		}
	}
	f.share()
	options, err := o.connection(f.server, func() {
		f.bans.tell()
		if f.drains != nil {
			f.drains.tell()
		}
	})
	if err != nil {
		return nil, nil, err
	}
	if f.drains != nil {
		o.Games.OnDrain(f.drains.change)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := runs(func() {
		defer close(f.ended)
		defer f.server.stop()
		defer f.server.start(ctx)()
		f.run(ctx, options)
	})
	return f, func() {
		cancel()
		ended()
	}, nil
}

// share makes the parts that the Options name.
func (f *Fleet) share() {
	o, self, now := &f.Options, f.identity(), time.Now()
	f.bans = newBans(self, o.Replicas, o.Bans)
	f.bans.cause = f.server.cause
	f.bans.inherit(now, o.Pending.Bans)
	f.parts = append(f.parts, f.bans)
	if o.Games != nil {
		f.drains, f.counts = newDrains(self, o.Replicas, o.Games), newCounts(self, o.ReportEvery, o.Games)
		f.drains.cause = f.server.cause
		f.drains.inherit(now, o.Pending.Drains)
		f.parts = append(f.parts, f.drains, f.counts)
	}
	if o.Players != nil {
		f.players = newPlayers(o)
		f.parts = append(f.parts, f.players)
	}
	if o.Budgets != nil {
		f.parts = append(f.parts, newBudgets(self, o.SpendingEvery, o.Budgets, f.counts.nodes))
	}
}

// run shares until ctx is done.
func (f *Fleet) run(ctx context.Context, options []nats.Option) {
	connection, err := nats.Connect(strings.Join(f.Servers, ","), options...)
	f.mu.Lock()
	if f.connection = connection; err != nil { // not a missing server: the connection tries again by itself
		f.fault = err.Error()
	}
	f.mu.Unlock()
	if err != nil {
		f.Log.Error().Err(err).Msg("fleet not shared until a restart")
		return
	}
	defer connection.Close()
	for _, p := range f.parts {
		defer p.start(ctx, connection)()
	}
	<-ctx.Done()
}

// Status returns the present state.
func (f *Fleet) Status() view.Fleet {
	if f == nil {
		return view.Fleet{}
	}
	f.mu.Lock()
	c, s := f.connection, view.Fleet{On: true, Name: f.Name, Node: f.Node, Current: true, Error: f.fault}
	f.mu.Unlock()
	if c != nil {
		all := c.Stats()
		s.Messages = view.Messages{In: all.InMsgs, Out: all.OutMsgs, BytesIn: all.InBytes, BytesOut: all.OutBytes}
		s.Connected, s.Server = c.IsConnected(), c.ConnectedServerName()
	}
	for _, p := range f.parts {
		p.addTo(&s)
	}
	return s
}

// Nodes returns each node's account of its sessions, by name, with this node.
func (f *Fleet) Nodes() []Node {
	if f == nil || f.counts == nil {
		return nil
	}
	return f.counts.list(time.Now())
}

// DrainedServers returns the game servers that the fleet drains, in order.
func (f *Fleet) DrainedServers() []Drain {
	if f == nil || f.drains == nil {
		return nil
	}
	return f.drains.list()
}

var errEnded = errors.New("this node shares nothing with the fleet any more")

// alive returns an error after the end of the Fleet.
func (f *Fleet) alive() error {
	select {
	case <-f.ended:
		return errEnded
	default:
		return nil
	}
}

// BansInForce returns the bans in force, by network.
func (f *Fleet) BansInForce() ([]Ban, error) { return f.bans.inForce(time.Now()), f.alive() }

// Pending returns what a successor has to know. It waits for the players, or until ctx is done.
func (f *Fleet) Pending(ctx context.Context) (all Pending, err error) {
	if err = f.alive(); err == nil {
		all.Bans = f.bans.pending(false)
	}
	if f.players != nil {
		all.Players = f.players.pending(ctx)
	}
	if f.drains != nil {
		all.Drains = f.drains.pending(true)
	}
	return all, err
}

// Empty moves all sessions to other nodes, or to the one that is named, until none is left. It then passes their
// clients' datagrams on until the paths have changed. It returns when ctx is done, at the latest.
func (f *Fleet) Empty(ctx context.Context, node string) (Emptied, error) {
	if f.players == nil || f.players.connection.Load() == nil {
		return Emptied{}, errNoFollow
	}
	load := make(map[string]int) // the sessions of each node, as far as they are known
	for _, n := range f.Nodes() {
		for _, p := range n.Protocols {
			load[n.Name] += p.Established + p.HalfOpen
		}
	}
	return f.players.empty(ctx, node, load)
}
