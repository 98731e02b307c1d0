package relay

import (
	"net/netip"
	"time"

	"tidegate/codec"
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
func (g *guard) spent(rules []*rule, from netip.Addr, size int, late bool) {
	if g.spending.talkers == nil {
		return
	}
	from = from.Unmap()
	for _, l := range rules {
		a := ratelimit.Account{Of: l.Of, Per: l.Per, Late: late}
		switch l.Per {
		case ratelimit.PerAddress:
			a.Source = netip.PrefixFrom(from, from.BitLen())
		case ratelimit.PerNetwork:
			a.Source = g.settings.Networks.Of(from)
		default:
			continue
		}
		g.spending.talkers.Note(a, l.Rate, l.weight(size))
	}
}

// spentBy notes what a session has used of limits, if its client has proved its address.
func (g *guard) spentBy(e *Entry, rules []*rule, size int) {
	if g.spending.talkers != nil && e.Value.proved() {
		g.spent(rules, e.Key.Client.Addr(), size, false)
	}
}

// spentLate notes the handshake of a client that has proved its address after it.
func (g *guard) spentLate(e *Entry, size int) {
	if e.Value.trust.proof != codec.ProvedAccept && e.Value.proved() {
		g.spent(g.limits.handshakes[0], e.Key.Client.Addr(), size, true)
	}
}

// ruleOf returns the limit of an account, or nil if this node has no such limit.
func (g *guard) ruleOf(a *ratelimit.Account) *rule {
	l := &g.limits
	lists := [][]*rule{l.datagrams, l.accepted, l.messages}
	switch {
	case a.Of == ratelimit.Handshakes && a.Late:
		lists = [][]*rule{l.handshakes[0]}
	case a.Of == ratelimit.Handshakes:
		lists = [][]*rule{l.handshakes[1]}
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
func (g *guard) account(a ratelimit.Account) (b *ratelimit.Bucket, r ratelimit.Rate, ok bool) {
	l := g.ruleOf(&a)
	if l == nil {
		return nil, ratelimit.Rate{}, false
	}
	var n *node
	switch {
	case a.Of == ratelimit.Handshakes:
		return l.bucket(a.Source.Addr(), g.settings.Networks), l.Rate, true
	case a.Per == ratelimit.PerAddress:
		n = g.addresses[a.Source.Addr()]
	default:
		n = g.networks[a.Source]
	}
	if n == nil {
		return nil, l.Rate, true
	}
	return &n.buckets[a.Of], l.Rate, true
}

// charge takes the reports of other nodes, and charges what may be charged now.
func (g *guard) charge(now time.Time, reports []ratelimit.Spending, p ratelimit.Peers) {
	for _, s := range reports {
		if l := g.ruleOf(&s.Account); l != nil {
			g.spending.debts.Add(s, l.Rate, p)
		}
	}
	g.spending.debts.Pay(g.sinceStart(now), p, g.account)
}

// report returns what sources have used since the last call. The first call begins to note it.
func (g *guard) report(p ratelimit.Peers, seed func() uint64) []ratelimit.Spending {
	if g.spending.talkers == nil {
		g.spending.talkers = ratelimit.NewTalkers(seed())
	}
	return g.spending.talkers.Take(nil, p.Least())
}

// Charge charges sources what they have used of limits at other nodes.
func (r *Relay) Charge(now time.Time, reports []ratelimit.Spending, p ratelimit.Peers) {
	r.guard.charge(now, reports, p)
}

// Spending returns what sources have used of their limits since the last call. A Relay has its share of each rate, so
// the use of all siblings adds up.
func (r *Relay) Spending(p ratelimit.Peers) []ratelimit.Spending {
	all := r.guard.report(p, r.identities.next)
	for i := range all {
		all[i].Used /= time.Duration(r.shard.of)
	}
	return all
}
