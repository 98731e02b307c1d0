package fleet

import (
	"cmp"
	"context"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"tidegate/ratelimit"
)

// Budgets are the limits of this node's proxy per address and per network. They are safe for concurrent use.
type Budgets interface {
	// ChargeSpending charges sources what they have used of limits at other nodes.
	ChargeSpending(reports []ratelimit.Spending, p ratelimit.Peers)
	// TakeSpending returns what the sources with the largest use have used here since the last call.
	TakeSpending(ctx context.Context, most int, p ratelimit.Peers) ([]ratelimit.Spending, error)
}

// Times and bounds of reports of spending. Tests lower the time.
const (
	spendingEvery = time.Second // between two reports, unless Options says otherwise
	chargesEach   = 10          // charges between two reports, at most
	maxUncharged  = 4096        // accounts of all nodes together between two charges
)

// budgets tells the other nodes which sources use most of their limits here, and charges sources what they use there.
// Reports are plain messages of NATS. A lost report leaves a source what it has used elsewhere in that time. Its
// methods do nothing if it is nil.
type budgets struct {
	log    zerolog.Logger
	proxy  Budgets
	node   string
	prefix string // of the subjects of reports
	every  time.Duration
	nodes  func() int    // that are known, with this one
	wake   chan struct{} // a report has arrived

	mu        sync.Mutex // never held across I/O
	uncharged map[string]map[ratelimit.Account]time.Duration
	accounts  int // in uncharged
	status    BudgetStatus
}

// BudgetStatus counts what a node shares of its limits.
type BudgetStatus struct {
	On       bool
	Sent     uint64 // reports of this node
	Received uint64 // reports of other nodes
	Invalid  uint64 // reports that were ignored because they are not valid
	NoRoom   uint64 // reports that were ignored, whole or in part, because there are too many
	Told     uint64 // amounts of sources in this node's reports
	Charged  uint64 // amounts of sources that were charged for other nodes
}

func newBudgets(o *Options, nodes func() int) *budgets {
	return &budgets{
		log: o.Log, proxy: o.Budgets, node: o.Node, prefix: "tidegate." + o.Name + ".budgets.",
		every: cmp.Or(o.SpendingEvery, spendingEvery), nodes: nodes, wake: make(chan struct{}, 1),
		uncharged: make(map[string]map[ratelimit.Account]time.Duration), status: BudgetStatus{On: true},
	}
}

// start shares limits until ctx is done. The function that it returns waits for the end.
func (b *budgets) start(ctx context.Context, connection *nats.Conn) (wait func()) {
	if b == nil {
		return func() {}
	}
	wait, err := hearReports(connection, b.prefix, b.hear, func() { b.run(ctx, connection) })
	if err != nil {
		b.log.Error().Err(err).Msg("limits not shared until a restart")
	}
	return wait
}

// hear keeps what another node has reported until it is charged. The library calls it, one report after the other.
func (b *budgets) hear(m *nats.Msg) {
	node := strings.TrimPrefix(m.Subject, b.prefix)
	if node == b.node {
		return // counts report a twin
	}
	all, err := parseSpending(m.Data)
	if err == nil && !isName(node, maxNode) {
		err = errNode
	}
	b.mu.Lock()
	switch {
	case err != nil:
		b.refuse(err)
	case !b.keep(node, all):
		b.status.NoRoom++
	default:
		b.status.Received++
	}
	b.mu.Unlock()
	select {
	case b.wake <- struct{}{}:
	default: // it will be charged with the last one
	}
}

// keep adds a report to those of its node. It reports whether there was room for all of it.
func (b *budgets) keep(node string, all []ratelimit.Spending) bool {
	of := b.uncharged[node]
	if of == nil {
		if len(b.uncharged) >= maxNodes {
			return false
		}
		of = make(map[ratelimit.Account]time.Duration, len(all))
		b.uncharged[node] = of
	}
	for _, s := range all {
		if _, known := of[s.Account]; !known {
			if b.accounts >= maxUncharged {
				return false
			}
			b.accounts++
		}
		of[s.Account] += s.Used
	}
	return true
}

// refuse counts a report that is not valid. It logs a few lines for any number of them.
func (b *budgets) refuse(err error) {
	b.status.Invalid++
	if n := b.status.Invalid; n&(n-1) == 0 {
		b.log.Warn().Err(err).Uint64("total", n).Msg("fleet report of limits not valid")
	}
}

func (b *budgets) run(ctx context.Context, connection *nats.Conn) {
	tick := time.NewTicker(b.every)
	defer tick.Stop()
	rest := time.NewTimer(0)
	defer rest.Stop()
	for resting := true; ; {
		wake := b.wake
		if resting {
			wake = nil
		}
		select {
		case <-ctx.Done():
			return
		case <-rest.C:
			resting = false
		case <-wake:
			b.charge()
			rest.Reset(b.every / chargesEach)
			resting = true
		case <-tick.C:
			b.charge() // also the debts of earlier reports
			if err := b.tell(ctx, connection); err != nil {
				b.log.Debug().Err(err).Msg("use of limits not sent")
			}
		}
	}
}

func (b *budgets) peers() ratelimit.Peers { return ratelimit.Peers{Nodes: b.nodes(), Every: b.every} }

// charge hands the reports of all nodes to the proxy.
func (b *budgets) charge() {
	b.mu.Lock()
	all := make([]ratelimit.Spending, 0, b.accounts)
	for _, of := range b.uncharged {
		for a, used := range of {
			all = append(all, ratelimit.Spending{Account: a, Used: used})
		}
	}
	clear(b.uncharged)
	b.accounts = 0
	b.status.Charged += uint64(len(all))
	b.mu.Unlock()
	b.proxy.ChargeSpending(all, b.peers())
}

// tell sends what sources have used of limits here, if it is worth a report.
func (b *budgets) tell(ctx context.Context, connection *nats.Conn) error {
	asking, cancel := context.WithTimeout(ctx, lastChances)
	defer cancel()
	all, err := b.proxy.TakeSpending(asking, maxSpendings, b.peers())
	if err != nil || len(all) == 0 || !connection.IsConnected() {
		return err
	}
	if err := connection.Publish(b.prefix+b.node, formatSpending(all)); err != nil {
		return err
	}
	b.mu.Lock()
	b.status.Sent++
	b.status.Told += uint64(len(all))
	b.mu.Unlock()
	return nil
}

// addTo adds the state of limits to that of bans.
func (b *budgets) addTo(s *Status) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	s.Budgets = b.status
}
