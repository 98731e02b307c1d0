package admission

import (
	"errors"
	"net/netip"
	"slices"
	"time"

	"tidegate/internal/source"
	"tidegate/ratelimit"
)

// Buckets have the use of limits, by quantity. The one of handshakes stays empty.
type Buckets [ratelimit.ReliableMessages + 1]ratelimit.Bucket

// node counts for limits. It stands for one session, the sessions of one address or network, or all sessions.
type node struct {
	sessions int
	queued   int // bytes that wait
	buckets  Buckets
}

// Meter is a session's state for limits. Only datagrams of sessions fill its buckets. A stranger's datagrams with a
// forged address count elsewhere.
type Meter struct {
	own              node
	address, network *node // nil while no limit needs them
}

// Buckets returns the buckets of the session, its address and its network. The last two are nil while no limit needs
// them.
func (m *Meter) Buckets() (own, address, network *Buckets) {
	if m.address == nil {
		return &m.own.buckets, nil, nil
	}
	return &m.own.buckets, &m.address.buckets, &m.network.buckets
}

// Overall returns the buckets of all sessions together.
func (g *Guard) Overall() *Buckets { return &g.all.buckets }

// Enroll counts a session at its address and its network.
func (g *Guard) Enroll(m *Meter, from netip.Addr) {
	m.own.sessions = 1
	g.all.sessions++
	if g.limits.shared {
		g.join(m, from)
	}
}

// EnrollAgain counts a session at its address and its network, after the limits have changed. It reports whether any
// limit needs that.
func (g *Guard) EnrollAgain(m *Meter, from netip.Addr) bool {
	switch {
	case !g.limits.shared:
		m.address, m.network = nil, nil
		return false
	case m.address == nil || g.byAddress[source.Of(from).Address()] != m.address:
		g.join(m, from)
	}
	return true
}

func (g *Guard) join(m *Meter, from netip.Addr) {
	of := source.Of(from)
	m.address, m.network = join(g.byAddress, of.Address(), m), join(g.byNetwork, of.Network(), m)
}

// Discharge stops counting a session. The node of an address lives as long as sessions of the address.
func (g *Guard) Discharge(m *Meter, from netip.Addr) {
	g.all.sessions--
	g.all.queued -= m.own.queued
	if m.address != nil {
		of := source.Of(from)
		leave(g.byAddress, of.Address(), m.address, m)
		leave(g.byNetwork, of.Network(), m.network, m)
	}
}

// Counts are the sizes of a Guard's tables.
type Counts struct {
	Sessions            int
	Queued              int // bytes that wait in them
	Addresses, Networks int // of sessions, while a limit needs them
	Debts               int // of sources, to other nodes of the fleet
}

// Counts returns the sizes of the Guard's tables.
func (g *Guard) Counts() Counts {
	return Counts{g.all.sessions, g.all.queued, len(g.byAddress), len(g.byNetwork), g.spending.debts.Len()}
}

// begin begins to count anew, after the limits have changed. Each session must be enrolled again. Until then it
// counts at its old nodes, or at none.
func (g *Guard) begin() {
	g.all.buckets = Buckets{}
	g.byAddress, g.byNetwork = make(map[netip.Prefix]*node), make(map[netip.Prefix]*node)
}

// at returns the node of a scope.
func (g *Guard) at(m *Meter, s ratelimit.Scope) *node {
	switch s {
	case ratelimit.PerSession:
		return &m.own
	case ratelimit.PerAddress:
		return g.orNone(m.address)
	case ratelimit.PerNetwork:
		return g.orNone(m.network)
	}
	return &g.all
}

// orNone returns a node, or one without traffic for a session that is not enrolled since the limits have changed.
func (g *Guard) orNone(n *node) *node {
	if n == nil {
		g.none = node{sessions: 1}
		return &g.none
	}
	return n
}

// count adds to the waiting bytes of a session and of all nodes that include it.
func (g *Guard) count(m *Meter, more int) {
	if more == 0 {
		return
	}
	m.own.queued += more
	g.all.queued += more
	if m.address != nil {
		m.address.queued += more
		m.network.queued += more
	}
}

func join[K comparable](nodes map[K]*node, k K, m *Meter) *node {
	n := nodes[k]
	if n == nil {
		n = new(node)
		nodes[k] = n
	}
	n.sessions++
	n.queued += m.own.queued
	return n
}

func leave[K comparable](nodes map[K]*node, k K, n *node, m *Meter) {
	n.queued -= m.own.queued
	if n.sessions--; n.sessions == 0 && nodes[k] == n { // the limits may have changed since
		delete(nodes, k)
	}
}

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

// limits are the limits of the settings, sorted by the place that applies them.
type limits struct {
	// datagrams apply before a session's codec sees a datagram. Their verdicts harm only the datagram. accepted apply
	// after the codec has accepted it. Their verdicts end the session, and a forged datagram must not do that. A forger
	// that knows all that the codec checks looks like the client.
	datagrams, accepted []*Rule
	messages            []*Rule // on reliable messages
	queues              []*Rule // on bytes that wait
	strangers           []*Rule // on datagrams from addresses without a session
	// handshakes apply to new clients: [0] to clients without proof of address, [1] to clients with proof. So clients
	// without proof cannot use up the places of the others.
	handshakes [2][]*Rule
	calm       ratelimit.Rate   // rate of unproved new clients that need not ask twice; zero: half of half-open
	calmed     ratelimit.Bucket // state of calm
	shared     bool             // sessions of an address or network count together
}

// Rule is a Limit with the Buckets of addresses without a session.
type Rule struct {
	ratelimit.Limit
	Why     error // text for logs
	hashed  *ratelimit.HashedBuckets
	overall ratelimit.Bucket
}

// SetLimits replaces the limits. seed makes the seeds of hashed buckets. Each session must be enrolled again.
func (g *Guard) SetLimits(all []ratelimit.Limit, seed func() uint64) {
	g.limits = newLimits(all, seed)
	g.begin()
}

// newLimits sorts the limits. seed makes the seeds of hashed buckets.
func newLimits(all []ratelimit.Limit, seed func() uint64) limits {
	var l limits
	for _, one := range all {
		hard := one.Verdict == ratelimit.Disconnect || one.Verdict == ratelimit.BanSource
		if one.Of != ratelimit.Handshakes && (one.Per == ratelimit.PerAddress || one.Per == ratelimit.PerNetwork) {
			l.shared = true
		}
		switch one.Of {
		case ratelimit.Handshakes:
			l.handshakes[0] = append(l.handshakes[0], newRule(one, seed))
			l.handshakes[1] = append(l.handshakes[1], newRule(one, seed))
			if one.Per == ratelimit.Overall {
				l.calm = ratelimit.Rate{PerSecond: max(1, one.Rate.PerSecond/2), Burst: max(1, one.Rate.Burst/2)}
			}
		case ratelimit.ReliableMessages:
			l.messages = append(l.messages, newRule(one, seed))
		case ratelimit.QueuedBytes:
			l.queues = append(l.queues, newRule(one, seed))
		default:
			if hard {
				l.accepted = append(l.accepted, newRule(one, seed))
			} else {
				l.datagrams = append(l.datagrams, newRule(one, seed))
			}
			if one.Per != ratelimit.PerSession {
				l.strangers = append(l.strangers, newRule(one, seed))
			}
		}
	}
	return l
}

func newRule(l ratelimit.Limit, seed func() uint64) *Rule {
	r := &Rule{Limit: l, Why: errors.New(l.String())}
	if l.Per == ratelimit.PerAddress || l.Per == ratelimit.PerNetwork {
		r.hashed = ratelimit.NewHashedBuckets(seed())
	}
	return r
}

// bucket returns the bucket of an address without a session.
func (l *Rule) bucket(from netip.Addr) *ratelimit.Bucket {
	switch l.Per {
	case ratelimit.PerAddress:
		return l.hashed.Of(source.Of(from).Address())
	case ratelimit.PerNetwork:
		return l.hashed.Of(source.Of(from).Network())
	}
	return &l.overall
}

// weight returns the amount that a datagram takes from a bucket.
func (l *Rule) weight(size int) int {
	if l.Of == ratelimit.Bytes {
		return size
	}
	return 1
}

// UsedUp returns the limits that the next datagram of an address without a session would break. It changes nothing.
func (g *Guard) UsedUp(now time.Time, a netip.Addr) (all []ratelimit.Limit) {
	for _, l := range slices.Concat(g.limits.strangers, g.limits.handshakes[0], g.limits.handshakes[1]) {
		if l.isUsedUp(g.sinceStart(now), *l.bucket(a)) {
			all = append(all, l.Limit)
		}
	}
	return all
}

// UsedUpBy returns the limits that a session has used up. It changes nothing.
func (g *Guard) UsedUpBy(now time.Time, m *Meter) (all []ratelimit.Limit) {
	for _, l := range slices.Concat(g.limits.datagrams, g.limits.accepted, g.limits.messages) {
		if l.isUsedUp(g.sinceStart(now), g.at(m, l.Per).buckets[l.Of]) {
			all = append(all, l.Limit)
		}
	}
	for _, l := range g.limits.queues {
		if g.at(m, l.Per).queued >= l.Rate.PerSecond {
			all = append(all, l.Limit)
		}
	}
	return all
}

// isUsedUp reports whether a bucket would not let one more pass. b is a copy of the bucket.
func (l *Rule) isUsedUp(now time.Duration, b ratelimit.Bucket) bool { return !b.Take(now, l.Rate, 1) }
