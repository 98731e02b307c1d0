package fleet

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"tidegate/internal/fleet/view"
	"tidegate/internal/source"
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

// maxCells bounds the servers of all nodes together, counted once for each node. A test lowers it.
var maxCells = 100_000

// account holds the last report of each other node, and their sum. It has no I/O and no clock.
type account struct {
	nodes map[string]*heard
	sum   map[gameServer]int // sessions of all other nodes; never 0
	cells int                // servers in all reports
}

// heard is a node's last report.
type heard struct {
	*report
	at time.Time // by this node's clock
}

func newAccount() account {
	return account{nodes: make(map[string]*heard), sum: make(map[gameServer]int)}
}

// take replaces a node's report. It reports whether the sum has changed.
func (a *account) take(now time.Time, node string, r *report) (changed bool, err error) {
	last := a.nodes[node]
	cells := len(r.Servers)
	switch {
	case !isName(node, maxNode):
		return false, errNode
	case last == nil && len(a.nodes) >= maxNodes:
		return false, errRoom
	case last != nil && last.Instance == r.Instance && r.Number <= last.Number:
		return false, errOldNews
	case last != nil:
		cells -= len(last.Servers)
	}
	if a.cells+cells > maxCells {
		return false, errRoom
	}
	if last != nil && slices.Equal(last.Servers, r.Servers) {
		a.nodes[node] = &heard{r, now}
		return false, nil
	}
	if last != nil {
		a.add(last.report, -1)
	}
	a.add(r, 1)
	a.nodes[node] = &heard{r, now}
	return true, nil
}

// add adds a report to the sum, or takes it away.
func (a *account) add(r *report, sign int) {
	a.cells += sign * len(r.Servers)
	for _, s := range r.Servers {
		key := gameServer{s.Upstream, s.Addr}
		if n := a.sum[key] + sign*s.Sessions; n != 0 {
			a.sum[key] = n
		} else {
			delete(a.sum, key)
		}
	}
}

// expire forgets nodes that have been silent for too long. It reports whether it has forgotten one.
func (a *account) expire(now time.Time) (changed bool) {
	for node, h := range a.nodes {
		if now.Sub(h.at) >= reportLife {
			a.add(h.report, -1)
			delete(a.nodes, node)
			changed = true
		}
	}
	return changed
}

// snapshot returns the sum by upstream and server.
func (a *account) snapshot() map[string]map[netip.AddrPort]int {
	all := make(map[string]map[netip.AddrPort]int)
	for s, n := range a.sum {
		if all[s.upstream] == nil {
			all[s.upstream] = make(map[netip.AddrPort]int)
		}
		all[s.upstream][s.addr] = n
	}
	return all
}

// Node is a node's account of its sessions.
type Node struct {
	Name      string
	Age       time.Duration // since its last report arrived
	Servers   []ServerCount // by upstream and address
	Protocols []ProtocolCount
}

// list returns the other nodes, by name.
func (a *account) list(now time.Time) []Node {
	all := make([]Node, 0, len(a.nodes)+1)
	for _, name := range slices.Sorted(maps.Keys(a.nodes)) {
		h := a.nodes[name]
		all = append(all, Node{name, now.Sub(h.at), h.Servers, h.Protocols})
	}
	return all
}

// Bounds of a report of spending.
const (
	spendingForm = 1    // the version
	maxSpendings = 1024 // of one node
	spendingUnit = time.Microsecond
	spendingIPv4 = 2 + 4 + 4 // bytes of one
	spendingIPv6 = 2 + 16 + 4

	maxSpendReport = 1 + maxSpendings*spendingIPv6
)

// Parts of the first byte of a spending.
const (
	spendingOf   = 1<<4 - 1 // the quantity
	spendingNet  = 1 << 4   // of a network, else of an address
	spendingLate = 1 << 5
	spendingWide = 1 << 6 // IPv6
)

var errSpending = errors.New("a report of limits with a source, a limit or an amount that no node has")

// formatSpending returns what a node has used of limits, as other nodes read it:
//
//	1 byte   the version
//	then for each account:
//	1 byte   the quantity, the scope, the kind of proof and the family of addresses
//	1 byte   bits of the source
//	4 or 16  the source
//	4 bytes  microseconds that the limit's rate needs to pay for the amount
func formatSpending(all []ratelimit.Spending) []byte {
	b := append(make([]byte, 0, 1+len(all)*spendingIPv4), spendingForm)
	for _, s := range all[:min(len(all), maxSpendings)] {
		kind := byte(s.Of)
		if s.Per == ratelimit.PerNetwork {
			kind |= spendingNet
		}
		if s.Late {
			kind |= spendingLate
		}
		if s.Source.Addr().Is6() {
			kind |= spendingWide
		}
		b = append(b, kind, byte(s.Source.Bits()))
		b = append(b, s.Source.Addr().AsSlice()...)
		b = binary.BigEndian.AppendUint32(b, uint32(min(max(1, s.Used/spendingUnit), 1<<32-1)))
	}
	return b
}

// parseSpending reads what another node has used of limits. The node may be hostile: all parts are checked and bounded.
func parseSpending(b []byte) ([]ratelimit.Spending, error) {
	if len(b) == 0 || len(b) > maxSpendReport || b[0] != spendingForm {
		return nil, errSpending
	}
	var all []ratelimit.Spending
	seen := make(map[ratelimit.Account]struct{})
	for b = b[1:]; len(b) > 0; {
		s, n, err := parseOneSpending(b)
		if err != nil {
			return nil, err
		}
		if seen[s.Account] = struct{}{}; len(seen) > maxSpendings || len(seen) != len(all)+1 {
			return nil, fmt.Errorf("%w, or with one twice", errSpending)
		}
		all, b = append(all, s), b[n:]
	}
	return all, nil
}

// parseOneSpending reads the first spending, and returns its length.
func parseOneSpending(b []byte) (s ratelimit.Spending, n int, err error) {
	n = spendingIPv4
	if b[0]&spendingWide != 0 {
		n = spendingIPv6
	}
	if len(b) < n {
		return s, 0, errSpending
	}
	addr, _ := netip.AddrFromSlice(b[2 : n-4]) // of a right length
	s.Source = netip.PrefixFrom(addr, int(b[1]))
	s.Of, s.Per, s.Late = ratelimit.Quantity(b[0]&spendingOf), ratelimit.PerAddress, b[0]&spendingLate != 0
	if b[0]&spendingNet != 0 {
		s.Per = ratelimit.PerNetwork
	}
	s.Used = time.Duration(binary.BigEndian.Uint32(b[n-4:])) * spendingUnit
	switch of := source.Of(addr); {
	case b[0]&^(spendingOf|spendingNet|spendingLate|spendingWide) != 0,
		s.Of >= ratelimit.QueuedBytes, // it is no rate
		s.Late && s.Of != ratelimit.Handshakes,
		addr.Is4In6(), !s.Source.IsValid(), s.Source != s.Source.Masked(),
		s.Per == ratelimit.PerAddress && s.Source != of.Address(),
		s.Per == ratelimit.PerNetwork && s.Source != of.Network(),
		s.Used == 0:
		return s, 0, errSpending
	}
	return s, n, nil
}
