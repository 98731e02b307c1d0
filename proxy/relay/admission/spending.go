package admission

import (
	"net/netip"
	"time"

	"tidegate/internal/source"
	"tidegate/ratelimit"
)

// spending is a loop's part in limits across a fleet. It notes what sources use of their limits here, and charges them
// what they have used at other nodes. Only clients that have proved their address count. So a forger cannot spend the
// budgets of an innocent address at all nodes.
type spending struct {
	talkers *ratelimit.Talkers // nil: limits are not shared
	debts   ratelimit.Debts
}

// spent notes what a source with proof of its address has used of limits.
func (g *Guard) spent(rules []*Rule, from netip.Addr, size int, late bool) {
	if !g.Shares() {
		return
	}
	from = from.Unmap()
	for _, l := range rules {
		a := ratelimit.Account{Of: l.Of, Per: l.Per, Late: late}
		switch l.Per {
		case ratelimit.PerAddress:
			a.Source = source.Of(from).Address()
		case ratelimit.PerNetwork:
			a.Source = source.Of(from).Network()
		default:
			continue
		}
		g.spending.talkers.Note(a, l.Rate, l.weight(size))
	}
}

// Shares reports whether the limits are shared with other nodes. Then use of clients that have proved their address is
// noted.
func (g *Guard) Shares() bool { return g.spending.talkers != nil }

// SpentDatagram notes an accepted datagram of a client that has proved its address.
func (g *Guard) SpentDatagram(from netip.Addr, size int) {
	g.spent(g.limits.datagrams, from, size, false)
	g.spent(g.limits.accepted, from, size, false)
}

// SpentMessage notes a reliable message of a client that has proved its address.
func (g *Guard) SpentMessage(from netip.Addr, size int) {
	g.spent(g.limits.messages, from, size, false)
}

// SpentLate notes the handshake of a client that has proved its address after it.
func (g *Guard) SpentLate(from netip.Addr, size int) {
	g.spent(g.limits.handshakes[0], from, size, true)
}

// ruleOf returns the limit of an account, or nil if this node has no such limit.
func (g *Guard) ruleOf(a *ratelimit.Account) *Rule {
	l := &g.limits
	lists := [][]*Rule{l.datagrams, l.accepted, l.messages}
	switch {
	case a.Of == ratelimit.Handshakes && a.Late:
		lists = [][]*Rule{l.handshakes[0]}
	case a.Of == ratelimit.Handshakes:
		lists = [][]*Rule{l.handshakes[1]}
	}
	for _, rules := range lists {
		for _, one := range rules {
			if one.Of == a.Of && one.Per == a.Per {
				return one
			}
		}
	}
	return nil
}

// account returns the bucket and the rate of an account, for Debts. A source without sessions has no bucket for what
// sessions use.
func (g *Guard) account(a ratelimit.Account) (b *ratelimit.Bucket, r ratelimit.Rate, ok bool) {
	l := g.ruleOf(&a)
	if l == nil {
		return nil, ratelimit.Rate{}, false
	}
	var n *node
	switch {
	case a.Of == ratelimit.Handshakes:
		return l.bucket(a.Source.Addr()), l.Rate, true
	case a.Per == ratelimit.PerAddress:
		n = g.byAddress[a.Source]
	default:
		n = g.byNetwork[a.Source]
	}
	if n == nil {
		return nil, l.Rate, true
	}
	return &n.buckets[a.Of], l.Rate, true
}

// Charge takes the reports of other nodes, and charges what may be charged now.
func (g *Guard) Charge(now time.Time, reports []ratelimit.Spending, p ratelimit.Peers) {
	for _, s := range reports {
		if l := g.ruleOf(&s.Account); l != nil {
			g.spending.debts.Add(s, l.Rate, p)
		}
	}
	g.spending.debts.Pay(g.sinceStart(now), p, g.account)
}

// Report returns what sources have used since the last call. The first call begins to note it.
func (g *Guard) Report(p ratelimit.Peers, seed func() uint64) []ratelimit.Spending {
	if !g.Shares() {
		g.spending.talkers = ratelimit.NewTalkers(seed())
	}
	return g.spending.talkers.Take(nil, p.Least())
}
