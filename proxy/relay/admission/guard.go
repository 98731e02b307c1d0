package admission

import (
	"net/netip"
	"time"

	"tidegate/internal/filter"
	"tidegate/internal/policy"
	"tidegate/proxy/stats"
	"tidegate/ratelimit"
)

// Guard decides which clients may enter, and which traffic may pass. MayEnter and MayAsk judge strangers, MayPass and
// MayRelay datagrams of sessions, and Accepted, Said and Message what a session's connection has accepted. The caller
// carries out each verdict.
type Guard struct {
	Bans *ratelimit.Bans // never nil

	start    time.Time
	backlog  *Backlog
	counters *stats.Counters
	filters  filters
	limits   limits
	seen     *ratelimit.SeenFilter // sources that asked for a session while the Guard was crowded
	spending spending

	all, none node // counts of all sessions; of none
	byAddress map[netip.Prefix]*node
	byNetwork map[netip.Prefix]*node
}

// NewGuard returns a Guard without limits and rules. bans are shared; nil means that there are none. backlog and
// counters are those of the Guard's loop.
func NewGuard(now time.Time, bans *ratelimit.Bans, seed uint64, backlog *Backlog, counters *stats.Counters) Guard {
	if bans == nil {
		bans = ratelimit.NewBans(ratelimit.Terms{})
	}
	return Guard{Bans: bans, start: now, backlog: backlog, counters: counters, seen: ratelimit.NewSeenFilter(seed)}
}

// Fault is the reason to drop a datagram. The zero value lets the datagram pass.
type Fault struct {
	Drops bool
	Why   stats.Drop
	Err   error // may be nil; names the rule or limit
}

// MayEnter judges a datagram from an address without a session, before its protocol sees it.
func (g *Guard) MayEnter(now time.Time, listener string, from netip.AddrPort, size int) Fault {
	if g.Bans.Find(now, from.Addr()) != nil {
		return Fault{true, stats.DropBanned, nil}
	}
	if l := g.strangerWithin(now, g.limits.strangers, from, size); l != nil {
		return Fault{true, stats.DropRate, l.Why}
	}
	return g.mayCome(listener, from.Addr())
}

// MayAsk judges a new client that asks for a session. When many clients without proof ask, each must ask twice. A
// real client repeats itself. An attacker that forges random addresses does not. halfFull says that half of the places
// for half-open sessions are taken.
func (g *Guard) MayAsk(now time.Time, from netip.AddrPort, size int, proved, halfFull bool) Fault {
	rules := g.limits.handshakes[1]
	if !proved {
		rules = g.limits.handshakes[0]
		if g.crowded(now, halfFull) && !g.seen.Seen(g.sinceStart(now), from) {
			return Fault{true, stats.DropAskAgain, nil}
		}
	}
	if l := g.strangerWithin(now, rules, from, size); l != nil {
		return Fault{true, stats.DropHandshakes, l.Why}
	}
	if proved {
		g.spent(rules, from.Addr(), size, false)
	}
	return Fault{}
}

// Asked notes that a new client has asked, for which there is no place at present. The limits of handshakes do not
// count it: a request without a place must not keep the client out later.
func (g *Guard) Asked(now time.Time, from netip.AddrPort) { g.seen.Seen(g.sinceStart(now), from) }

// crowded reports whether new clients must ask twice. That is so when the rate of requests or the number of half-open
// sessions reaches half of its limit. It is also so when more datagrams come than the loop can read: to open a
// session takes twenty times as long as to read a datagram.
func (g *Guard) crowded(now time.Time, halfFull bool) bool {
	if g.backlog.Overrun() {
		return true
	}
	l := &g.limits
	if l.calm.PerSecond > 0 && !l.calmed.Take(g.sinceStart(now), l.calm, 1) {
		return true
	}
	return halfFull
}

// MayPass judges a client's datagram before its session sees it.
func (g *Guard) MayPass(now time.Time, m *Meter, size int) Fault {
	if l := g.exceeded(now, g.limits.datagrams, m, size); l != nil {
		return Fault{true, stats.DropRate, l.Why}
	}
	return Fault{}
}

// MayRelay judges a client's datagram that no codec checks. The datagram may be forged, so every verdict only drops
// it.
func (g *Guard) MayRelay(now time.Time, m *Meter, size int) Fault {
	l := g.exceeded(now, g.limits.datagrams, m, size)
	if l == nil {
		l = g.exceeded(now, g.limits.accepted, m, size)
	}
	if l != nil {
		return Fault{true, stats.DropRate, l.Why}
	}
	return Fault{}
}

// Accepted judges a client's datagram that its connection has accepted. It returns the rule that the datagram breaks,
// or nil.
func (g *Guard) Accepted(now time.Time, m *Meter, size int) *Rule {
	return g.exceeded(now, g.limits.accepted, m, size)
}

// Said judges a client's reliable message. It returns the rule that the message breaks, or nil.
func (g *Guard) Said(now time.Time, m *Meter, size int) *Rule {
	return g.exceeded(now, g.limits.messages, m, size)
}

// exceeded applies rules to traffic of a session. It returns the rule that stops the traffic, or nil.
func (g *Guard) exceeded(now time.Time, rules []*Rule, m *Meter, size int) *Rule {
	at := g.sinceStart(now)
	for _, l := range rules {
		if !g.at(m, l.Per).buckets[l.Of].Take(at, l.Rate, l.weight(size)) && g.breaks(l) {
			return l
		}
	}
	return nil
}

// Queued counts the bytes that wait in a session, if there are limits on them. It reports whether there are.
func (g *Guard) Queued(m *Meter, bytes int) bool {
	if len(g.limits.queues) == 0 {
		return false
	}
	g.count(m, bytes-m.own.queued)
	return true
}

// Overflow applies the limits on waiting bytes to a session. A limit over several sessions only applies to sessions
// with more than their share of it. So each session that grows beyond the limit is at fault. The session is choked if
// it gets no more messages at present. broken is the rule that ends it, or nil.
func (g *Guard) Overflow(m *Meter) (choked bool, broken *Rule) {
	queued := m.own.queued
	for _, l := range g.limits.queues {
		n := g.at(m, l.Per)
		if n.queued <= l.Rate.PerSecond || queued*n.sessions <= l.Rate.PerSecond || !g.breaks(l) {
			continue
		}
		if l.Verdict != ratelimit.Drop {
			return choked, l
		}
		choked = true
	}
	return choked, nil
}

// Judges reports whether there are rules about messages from a side.
func (g *Guard) Judges(from policy.Direction) bool { return g.filters.set.Judges(from) }

// Message applies the rules about messages. rates is the session's state. cause names the rule of a verdict that is
// not to pass.
func (g *Guard) Message(now time.Time, said *filter.Said, rates *filter.Memory) (v ratelimit.Verdict, cause error) {
	match := g.filters.set.Message(now, said, rates)
	return match.Verdict, g.filters.messages.note(match)
}

// mayCome applies the rules about sources to an address without a session.
func (g *Guard) mayCome(listener string, from netip.Addr) Fault {
	f := &g.filters
	if f.set == nil {
		return Fault{}
	}
	match := f.set.Source(listener, from)
	cause := f.sources.note(match)
	if match.Verdict < ratelimit.Drop {
		return Fault{}
	}
	return Fault{true, stats.DropSourceRule, cause}
}

// RefusedBy returns the rule about sources that refuses the address of a session, if there is one.
func (g *Guard) RefusedBy(listener string, client netip.Addr) (rule string, ok bool) {
	match := g.filters.set.Source(listener, client)
	if match.Verdict < ratelimit.Drop {
		return "", false
	}
	return g.filters.sources.names[match.Rule], true
}

// strangerWithin applies rules to a datagram of size bytes from an address without a session. Every verdict above
// Observe drops the datagram. It returns the rule that drops it, or nil.
func (g *Guard) strangerWithin(now time.Time, rules []*Rule, from netip.AddrPort, size int) *Rule {
	at, a := g.sinceStart(now), from.Addr().Unmap()
	for _, l := range rules {
		if !l.bucket(a).Take(at, l.Rate, l.weight(size)) && g.breaks(l) {
			return l
		}
	}
	return nil
}

// breaks counts a breach of a limit, and reports whether the verdict is enforced.
func (g *Guard) breaks(l *Rule) bool {
	if l.Verdict <= ratelimit.Observe {
		g.counters.Limits[l.Of][l.Per].Observed++
		return false
	}
	g.counters.Limits[l.Of][l.Per].Enforced++
	return true
}

// Start returns the time from which on the Buckets of sessions count.
func (g *Guard) Start() time.Time { return g.start }

// sinceStart returns the time as Buckets count it.
func (g *Guard) sinceStart(now time.Time) time.Duration { return now.Sub(g.start) }
