package relay

import (
	"net/netip"
	"time"

	"tidegate/proxy/stats"
	"tidegate/ratelimit"
)

// guard decides which clients may enter, and which traffic may pass. mayEnter and mayAsk judge strangers, mayPass and
// mayRelay datagrams of sessions, and mayCross messages.
type guard struct {
	start    time.Time
	settings *Settings
	table    sessionTable
	backlog  *backlog
	drops    *dropLog
	bans     *ratelimit.Bans
	filters  filters
	limits   limits
	seen     *ratelimit.SeenFilter // sources that asked for a session while the guard was crowded
	spending spending

	all, none node // counts of all sessions; of none
	addresses map[netip.Addr]*node
	networks  map[netip.Prefix]*node
}

func newGuard(now time.Time, bans *ratelimit.Bans, seed uint64) guard {
	if bans == nil {
		bans = ratelimit.NewBans(ratelimit.Terms{})
	}
	return guard{start: now, bans: bans, seen: ratelimit.NewSeenFilter(seed)}
}

// mayEnter judges a datagram from an address without a session, before its protocol sees it.
func (g *guard) mayEnter(now time.Time, listener *listener, from netip.AddrPort, datagram []byte) bool {
	if g.bans.Find(now, from.Addr()) != nil {
		g.drops.add(now, dropped{stats.DropBanned, listener, from, len(datagram), nil})
		return false
	}
	if l := g.strangerWithin(now, g.limits.strangers, from, len(datagram)); l != nil {
		g.drops.add(now, dropped{stats.DropRate, listener, from, len(datagram), l.why})
		return false
	}
	return g.mayCome(now, listener, from, len(datagram))
}

// mayAsk judges a new client that asks for a session. When many clients without proof ask, each must ask twice. A
// real client repeats itself. An attacker that forges random addresses does not.
func (g *guard) mayAsk(now time.Time, listener *listener, from netip.AddrPort, size int, proved bool) bool {
	rules := g.limits.handshakes[1]
	if !proved {
		rules = g.limits.handshakes[0]
		if g.crowded(now) && !g.seen.Seen(g.sinceStart(now), from) {
			g.drops.add(now, dropped{stats.DropAskAgain, listener, from, size, nil})
			return false
		}
	}
	if l := g.strangerWithin(now, rules, from, size); l != nil {
		g.drops.add(now, dropped{stats.DropHandshakes, listener, from, size, l.why})
		return false
	}
	if proved {
		g.spent(rules, from.Addr(), size, false)
	}
	return true
}

// crowded reports whether new clients must ask twice. That is so when the rate of requests or the number of half-open
// sessions reaches half of its limit. It is also so when more datagrams come than the loop can read: to open a
// session takes twenty times as long as to read a datagram.
func (g *guard) crowded(now time.Time) bool {
	if g.backlog.overrun() {
		return true
	}
	l := &g.limits
	if l.calm.PerSecond > 0 && !l.calmed.Take(g.sinceStart(now), l.calm, 1) {
		return true
	}
	return 2*g.table.HalfOpen() >= g.settings.Limits.HalfOpen
}

// mayPass judges a client's datagram before its session sees it.
func (g *guard) mayPass(now time.Time, listener *listener, m *meter, from netip.AddrPort, size int) bool {
	if l := g.exceeded(now, g.limits.datagrams, m, size); l != nil {
		g.drops.add(now, dropped{stats.DropRate, listener, from, size, l.why})
		return false
	}
	return true
}

// mayRelay judges a client's datagram of a session in ModeRelay. The datagram may be forged, so every verdict only
// drops it.
func (g *guard) mayRelay(now time.Time, listener *listener, m *meter, from netip.AddrPort, size int) bool {
	if !g.mayPass(now, listener, m, from, size) {
		return false
	}
	if l := g.exceeded(now, g.limits.accepted, m, size); l != nil {
		g.drops.add(now, dropped{stats.DropRate, listener, from, size, l.why})
		return false
	}
	return true
}

// exceeded applies rules to traffic of a session. It returns the rule that stops the traffic, or nil.
func (g *guard) exceeded(now time.Time, rules []*rule, m *meter, size int) *rule {
	at := g.sinceStart(now)
	for _, l := range rules {
		if !g.at(m, l.Per).buckets[l.Of].Take(at, l.Rate, l.weight(size)) && g.breaks(l) {
			return l
		}
	}
	return nil
}

// mayCome applies the rules about sources to an address without a session.
func (g *guard) mayCome(now time.Time, l *listener, from netip.AddrPort, size int) bool {
	f := &g.filters
	if f.set == nil {
		return true
	}
	match := f.set.Source(l.name, from.Addr())
	fault := f.sources.note(match)
	if match.Verdict < ratelimit.Drop {
		return true
	}
	g.drops.add(now, dropped{stats.DropSourceRule, l, from, size, fault})
	return false
}

// mayStay applies the rules about sources to the address of a session.
func (g *guard) mayStay(l *listener, client netip.Addr) bool {
	return g.filters.set.Source(l.name, client).Verdict < ratelimit.Drop
}

// ruleCounts returns the counts of all rules, with rules about sources first.
func (g *guard) ruleCounts() []RuleCount {
	f := &g.filters
	counts := make([]RuleCount, 0, len(f.sources.names)+len(f.messages.names))
	counts = f.sources.list(counts, "source")
	return f.messages.list(counts, "message")
}

// strangerWithin applies rules to a datagram of size bytes from an address without a session. Every verdict above
// Observe drops the datagram. It returns the rule that drops it, or nil.
func (g *guard) strangerWithin(now time.Time, rules []*rule, from netip.AddrPort, size int) *rule {
	at, a := g.sinceStart(now), from.Addr().Unmap()
	for _, l := range rules {
		if !l.bucket(a, g.settings.Networks).Take(at, l.Rate, l.weight(size)) && g.breaks(l) {
			return l
		}
	}
	return nil
}

// breaks counts a breach of a limit, and reports whether the verdict is enforced.
func (g *guard) breaks(l *rule) bool {
	if l.Verdict <= ratelimit.Observe {
		g.drops.counters.Limits[l.Of][l.Per].Observed++
		return false
	}
	g.drops.counters.Limits[l.Of][l.Per].Enforced++
	return true
}

// sinceStart returns the time as Buckets count it.
func (g *guard) sinceStart(now time.Time) time.Duration { return now.Sub(g.start) }

// at returns the node of a scope.
func (g *guard) at(m *meter, s ratelimit.Scope) *node {
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

// enroll counts a session at its address and its network.
func (g *guard) enroll(m *meter, from netip.Addr) {
	m.own.sessions = 1
	g.all.sessions++
	if g.limits.shared {
		m.address = join(g.addresses, from.Unmap(), m)
		m.network = join(g.networks, g.settings.Networks.Of(from), m)
	}
}

// discharge stops counting a session. The node of an address lives as long as sessions of the address.
func (g *guard) discharge(m *meter, from netip.Addr) {
	g.all.sessions--
	g.all.queued -= m.own.queued
	if m.address != nil {
		leave(g.addresses, from.Unmap(), m.address, m)
		leave(g.networks, g.settings.Networks.Of(from), m.network, m)
	}
}

// begin begins to count anew, after the limits have changed. Each session must be enrolled again. Until then it
// counts at its old nodes, or at none.
func (g *guard) begin() {
	g.all.buckets = node{}.buckets
	g.addresses, g.networks = make(map[netip.Addr]*node), make(map[netip.Prefix]*node)
}

// orNone returns a node, or one without traffic for a session that is not enrolled since the limits have changed.
func (g *guard) orNone(n *node) *node {
	if n == nil {
		g.none = node{sessions: 1}
		return &g.none
	}
	return n
}

// count adds to the waiting bytes of a session and of all nodes that include it.
func (g *guard) count(m *meter, more int) {
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
