package fleet

import (
	"cmp"
	"context"
	"time"

	"tidegate/internal/fleet/view"
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
// A lost report leaves a source what it has used elsewhere in that time.
type budgets struct {
	gossip
	proxy Budgets
	nodes func() int // that are known, with this one

	// The lock of gossip guards these.
	uncharged     map[string]map[ratelimit.Account]time.Duration
	accounts      int // in uncharged
	told, charged uint64
}

func newBudgets(self identity, every time.Duration, proxy Budgets, nodes func() int) *budgets {
	b := &budgets{proxy: proxy, nodes: nodes, uncharged: make(map[string]map[ratelimit.Account]time.Duration)}
	b.gossip = gossip{
		identity: self, kind: "budgets", every: cmp.Or(every, spendingEvery), wake: make(chan struct{}, 1),
		hear: b.hear, tell: b.tell,
		read: func() time.Duration {
			b.charge()
			return b.every / chargesEach
		},
	}
	return b
}

// hear keeps what another node has reported until it is charged.
func (b *budgets) hear(node string, report []byte) {
	if node == b.node {
		return // counts report a twin
	}
	all, err := parseSpending(report)
	if err == nil && !isName(node, maxNode) {
		err = errNode
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case err != nil:
		b.invalid(node, err)
	case !b.keep(node, all):
		b.status.NoRoom++
	default:
		b.status.Received++
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
	b.charged += uint64(len(all))
	b.mu.Unlock()
	b.proxy.ChargeSpending(all, b.peers())
}

// tell returns what sources have used of limits here, if it is worth a report.
func (b *budgets) tell(ctx context.Context, _ time.Time) ([]byte, error) {
	b.charge() // also the debts of earlier reports
	asking, cancel := context.WithTimeout(ctx, lastChances)
	defer cancel()
	all, err := b.proxy.TakeSpending(asking, maxSpendings, b.peers())
	if err != nil || len(all) == 0 {
		return nil, err
	}
	b.mu.Lock()
	b.told += uint64(len(all))
	b.mu.Unlock()
	return formatSpending(all), nil
}

func (b *budgets) addTo(s *view.Fleet) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s.Limits = view.Limits{On: true, Exchange: b.status, Told: b.told, Charged: b.charged}
}
