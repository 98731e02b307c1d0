package fleet

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"
)

// Times of reports.
const (
	reportEvery = 250 * time.Millisecond // at least, unless Options says otherwise
	repeatEvery = 2 * time.Second        // a report without a change; it also has the newest counts of protocols
	applyEvery  = 20 * time.Millisecond  // at least, for the reports of all nodes together
)

// Bounds of reports that are not read yet.
const (
	maxUnread  = 32 << 20 // bytes
	maxPending = 1024     // messages in the client library
)

var errTwin = errors.New("another process reports by this node's name; give each node its own fleet.node")

// counts tells the other nodes how many sessions this node has, and hears theirs. Reports are plain messages of NATS:
// they need no bucket, no majority and no disk. Its methods do nothing if it is nil.
type counts struct {
	log    zerolog.Logger
	games  GameServers
	node   string
	prefix string        // of the subjects of reports
	every  time.Duration // at least, between two reports
	wake   chan struct{} // a report has arrived

	last   report    // of this node
	tellAt time.Time // of the next report, at the latest

	mu      sync.Mutex        // never held across I/O
	unread  map[string][]byte // the newest report of each node
	size    int               // bytes of unread
	account account
	own     Node
	status  countStatus
}

// countStatus counts reports.
type countStatus struct {
	received, sent, invalid uint64

	noRoom uint64        // reports for which there was no room
	beyond int           // servers of this node for which a report has no room
	lag    time.Duration // of the last report with other counts, by the clocks of both nodes
}

func newCounts(o *Options) *counts {
	return &counts{
		log: o.Log, games: o.Games, node: o.Node, prefix: "tidegate." + o.Name + ".counts.",
		every: cmp.Or(o.ReportEvery, reportEvery), wake: make(chan struct{}, 1), last: report{instance: rand.Text()},
		unread: make(map[string][]byte), account: newAccount(), own: Node{Name: o.Node},
	}
}

// start shares counts until ctx is done. The function that it returns waits for the end.
func (c *counts) start(ctx context.Context, connection *nats.Conn) (wait func()) {
	if c == nil {
		return func() {}
	}
	wait, err := hearReports(connection, c.prefix, c.hear, func() { c.run(ctx, connection) })
	if err != nil {
		c.log.Error().Err(err).Msg("counts of sessions not shared until a restart")
	}
	return wait
}

// hearReports calls hear for each report of a node, as long as run runs. The function that it returns waits for run's
// end. After an error, run is not called.
func hearReports(connection *nats.Conn, prefix string, hear nats.MsgHandler, run func()) (wait func(), err error) {
	subscription, err := connection.Subscribe(prefix+">", hear) // the library repeats it after each reconnect
	if err != nil {
		return func() {}, err
	}
	_ = subscription.SetPendingLimits(maxPending, maxUnread) // it fails only for a subscription that has ended
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		run()
		_ = subscription.Unsubscribe() // the connection ends next
	}()
	return func() { <-ended }, nil
}

// hear keeps the newest report of each node until it is read. The library calls it.
func (c *counts) hear(m *nats.Msg) {
	node := strings.TrimPrefix(m.Subject, c.prefix)
	c.mu.Lock()
	older, known := c.unread[node]
	size := c.size + len(m.Data) - len(older)
	switch {
	case len(m.Data) > maxReport:
		c.refuse(node, errReportSize)
	case !known && len(c.unread) > maxNodes, size > maxUnread: // this node's own reports arrive too
		c.status.noRoom++
	default:
		c.unread[node], c.size = m.Data, size
	}
	c.mu.Unlock()
	select {
	case c.wake <- struct{}{}:
	default: // it will be read with the last one
	}
}

func (c *counts) run(ctx context.Context, connection *nats.Conn) {
	tick := time.NewTicker(c.every)
	defer tick.Stop()
	rest := time.NewTimer(0)
	defer rest.Stop()
	for resting := true; ; {
		wake := c.wake
		if resting {
			wake = nil
		}
		select {
		case <-ctx.Done():
			return
		case <-rest.C:
			resting = false
		case <-wake:
			began := time.Now()
			c.read(began)
			// All readings together use at most a tenth of a core.
			rest.Reset(max(applyEvery, 9*time.Since(began)))
			resting = true
		case now := <-tick.C:
			c.expire(now)
			if err := c.tell(ctx, connection, now); err != nil {
				c.log.Debug().Err(err).Msg("counts of sessions not sent")
			}
		}
	}
}

// read takes the reports that have arrived since the last call.
func (c *counts) read(now time.Time) {
	c.mu.Lock()
	unread := c.unread
	c.unread, c.size = make(map[string][]byte), 0
	c.mu.Unlock()
	changed := false
	for node, value := range unread {
		r, err := parseReport(value) // not under the lock: it takes a while
		c.mu.Lock()
		changed = c.take(now, node, r, err) || changed
		c.mu.Unlock()
	}
	if changed {
		c.apply()
	}
}

// take merges the report of a node. It reports whether the sum has changed.
func (c *counts) take(now time.Time, node string, r *report, err error) (changed bool) {
	if err == nil && node == c.node {
		if r.instance != c.last.instance {
			c.refuse(node, errTwin)
		}
		return false
	}
	known := err == nil && c.account.nodes[node] != nil && c.account.nodes[node].instance == r.instance
	if err == nil {
		changed, err = c.account.take(now, node, r)
	}
	switch {
	case errors.Is(err, errRoom):
		c.status.noRoom++
		return false
	case errors.Is(err, errOldNews):
		return false
	case err != nil:
		c.refuse(node, err)
		return false
	}
	c.status.received++
	if changed && known {
		c.status.lag = lagOf(r.sent, now)
	}
	if !known {
		c.tellAt = time.Time{} // a new node hears this one soon
	}
	return changed
}

// refuse counts a report that is not valid. It logs a few lines for any number of them.
func (c *counts) refuse(node string, err error) {
	c.status.invalid++
	if n := c.status.invalid; n&(n-1) == 0 {
		c.log.Warn().Err(err).Str("node", node).Uint64("total", n).Msg("fleet report not valid")
	}
}

// expire forgets silent nodes.
func (c *counts) expire(now time.Time) {
	c.mu.Lock()
	changed := c.account.expire(now)
	c.mu.Unlock()
	if changed {
		c.apply()
	}
}

// apply hands the sum to the game servers of this node.
func (c *counts) apply() {
	c.mu.Lock()
	sum := c.account.snapshot()
	c.mu.Unlock()
	c.games.SetFleetSessions(sum)
}

// tell sends this node's counts if they have changed, or if the last report is old.
func (c *counts) tell(ctx context.Context, connection *nats.Conn, now time.Time) error {
	servers := c.games.ServerCounts()
	inOrder(servers)
	c.mu.Lock()
	due := !now.Before(c.tellAt)
	c.mu.Unlock()
	if !due && slices.Equal(servers, c.own.Servers) {
		return nil
	}
	protocols := c.own.Protocols
	if due {
		asking, cancel := context.WithTimeout(ctx, lastChances)
		defer cancel()
		if fresh, err := c.games.ProtocolCounts(asking); err == nil { // else a loop is late
			protocols = fresh
		}
	}
	shared, beyond := shareable(servers)
	c.last.number++
	c.last.sent, c.last.servers, c.last.protocols = time.Now(), shared, protocols
	c.mu.Lock()
	c.own = Node{Name: c.node, Servers: servers, Protocols: protocols}
	c.status.beyond = beyond
	if due {
		c.tellAt = now.Add(repeatEvery)
	}
	c.mu.Unlock()
	value, err := c.last.format()
	if err == nil && connection.IsConnected() {
		err = connection.Publish(c.prefix+c.node, value)
	}
	if err == nil {
		c.mu.Lock()
		c.status.sent++
		c.mu.Unlock()
	}
	return err
}

// shareable returns the servers that a report has room for, those with the most sessions first if there are too many.
func shareable(all []ServerCount) (shared []ServerCount, beyond int) {
	for _, s := range all {
		if (gameServer{s.Upstream, s.Addr}).valid() && isCount(s.Sessions) {
			shared = append(shared, s)
		}
	}
	if len(shared) > maxServers {
		slices.SortStableFunc(shared, func(a, b ServerCount) int { return cmp.Compare(b.Sessions, a.Sessions) })
		shared = shared[:maxServers]
	}
	return shared, len(all) - len(shared)
}
