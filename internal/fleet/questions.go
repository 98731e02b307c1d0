package fleet

import (
	"cmp"
	"context"
	"slices"
	"time"

	"tidegate/ratelimit"
)

// Status is the state of a Fleet.
type Status struct {
	Connected bool          // to a NATS server
	Current   bool          // the bans and drains in force are those of the buckets
	Server    string        // the NATS server
	Error     string        // of the last attempt to share; empty: none
	Records   int           // networks with a ban or a removal
	Drained   int           // game servers
	Waiting   int           // changes of this node that the buckets do not have yet
	Beyond    int           // bans and drains of this node for which the fleet has no room
	Received  uint64        // records of other nodes
	Sent      uint64        // records of this node
	Invalid   uint64        // records that were ignored because they are not valid
	Conflicts uint64        // changes of this node that met another change of the same network or server
	Lag       time.Duration // from the last change at another node until it was in force here, by both clocks

	Nodes   int // other nodes whose counts are known
	Reports Reports
	Players PlayerStatus
	Budgets BudgetStatus
	// MessagesIn and MessagesOut are the messages of NATS, of all kinds, with their bytes.
	MessagesIn, MessagesOut, BytesIn, BytesOut uint64
}

// Reports counts the reports of sessions.
type Reports struct {
	Received, Sent, Invalid uint64

	NoRoom uint64        // reports of other nodes that were ignored because they are too many
	Beyond int           // servers of this node for which its reports have no room
	Lag    time.Duration // of the last report with other counts than before, by both clocks
}

// Status returns the present state.
func (f *Fleet) Status() Status {
	f.mu.Lock()
	s := f.status
	if f.connection != nil {
		all := f.connection.Stats()
		s.MessagesIn, s.MessagesOut, s.BytesIn, s.BytesOut = all.InMsgs, all.OutMsgs, all.InBytes, all.OutBytes
	}
	f.mu.Unlock()
	f.drains.addTo(&s)
	f.counts.addTo(&s)
	f.players.addTo(&s)
	f.budgets.addTo(&s)
	return s
}

// Nodes returns each node's account of its sessions, by name, with this node.
func (f *Fleet) Nodes() []Node { return f.counts.list(time.Now()) }

// addTo adds the state of counts to that of bans.
func (c *counts) addTo(s *Status) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s.Nodes = len(c.account.nodes)
	of := &c.status
	s.Reports = Reports{of.received, of.sent, of.invalid, of.noRoom, of.beyond, of.lag}
}

// nodes returns the number of nodes whose counts are known, with this one.
func (c *counts) nodes() int {
	if c == nil {
		return 1
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.account.nodes) + 1
}

// list returns the accounts of all nodes, by name.
func (c *counts) list(now time.Time) []Node {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	all := append(c.account.list(now), c.own)
	slices.SortFunc(all, func(a, b Node) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// DrainedServers returns the game servers that the fleet drains, in order.
func (f *Fleet) DrainedServers() []Drain { return f.drains.list() }

// Ban is a ban that the fleet knows.
type Ban struct {
	ratelimit.Ban
	Node string // where it was imposed
}

// BansInForce returns the bans in force, by network. It waits for the fleet's goroutine, or until ctx is done.
func (f *Fleet) BansInForce(ctx context.Context) ([]Ban, error) {
	var all []Ban
	err := f.ask(ctx, func() {
		now := time.Now()
		for _, e := range f.ledger.entries {
			if !e.removed && e.ban.Active(now) {
				all = append(all, Ban{e.ban, e.node})
			}
		}
	})
	slices.SortFunc(all, func(a, b Ban) int { return a.Prefix.Compare(b.Prefix) })
	return all, err
}

// ask runs a question on the fleet's goroutine.
func (f *Fleet) ask(ctx context.Context, question func()) error {
	answered := make(chan struct{})
	ask := func() {
		defer close(answered)
		question()
	}
	select {
	case f.asks <- ask:
		<-answered
		return nil
	case <-f.ended:
		return errEnded
	case <-ctx.Done():
		return ctx.Err()
	}
}
