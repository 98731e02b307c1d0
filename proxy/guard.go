package proxy

import (
	"net/netip"
	"time"

	"tidegate/codec"
	"tidegate/internal/filter"
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
func (g *guard) mayEnter(now time.Time, d *listener, from netip.AddrPort, datagram []byte) bool {
	if g.bans.Find(now, from.Addr()) != nil {
		g.drops.add(now, dropped{stats.DropBanned, d, from, len(datagram), nil})
		return false
	}
	if l := g.strangerWithin(now, g.limits.strangers, from, len(datagram)); l != nil {
		g.drops.add(now, dropped{stats.DropRate, d, from, len(datagram), l.why})
		return false
	}
	return g.mayCome(now, d, from, len(datagram))
}

// mayAsk judges a new client that asks for a session. When many clients without proof ask, each must ask twice. A
// real client repeats itself. An attacker that forges random addresses does not.
func (g *guard) mayAsk(now time.Time, d *listener, from netip.AddrPort, size int, proved bool) bool {
	rules := g.limits.handshakes[1]
	if !proved {
		rules = g.limits.handshakes[0]
		if g.crowded(now) && !g.seen.Seen(g.sinceStart(now), from) {
			g.drops.add(now, dropped{stats.DropAskAgain, d, from, size, nil})
			return false
		}
	}
	if l := g.strangerWithin(now, rules, from, size); l != nil {
		g.drops.add(now, dropped{stats.DropHandshakes, d, from, size, l.why})
		return false
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
func (g *guard) mayPass(now time.Time, d *listener, m *meter, from netip.AddrPort, size int) bool {
	if l := g.exceeded(now, g.limits.datagrams, m, size); l != nil {
		g.drops.add(now, dropped{stats.DropRate, d, from, size, l.why})
		return false
	}
	return true
}

// mayRelay judges a client's datagram of a session in ModeRelay. The datagram may be forged, so every verdict only
// drops it.
func (g *guard) mayRelay(now time.Time, d *listener, m *meter, from netip.AddrPort, size int) bool {
	if !g.mayPass(now, d, m, from, size) {
		return false
	}
	if l := g.exceeded(now, g.limits.accepted, m, size); l != nil {
		g.drops.add(now, dropped{stats.DropRate, d, from, size, l.why})
		return false
	}
	return true
}

// accepted judges a client's datagram that its connection has accepted. A datagram over a limit ends the session.
func (r *Relay) accepted(now time.Time, e *entry, size int) {
	if l := r.guard.exceeded(now, r.guard.limits.accepted, &e.Value.meter, size); l != nil {
		r.drops.add(now, dropped{stats.DropRate, e.Value.listener, e.Key.Client, size, l.why})
		r.applyVerdict(now, e, l.Verdict, l.String())
	}
}

// mayCross judges a message from one side of a session, before it goes to the other side. The bytes of head begin it
// on the wire.
func (r *Relay) mayCross(now time.Time, e *entry, from filter.Direction, m *codec.Message, head []byte) bool {
	p := &e.Value
	if !r.maySay(now, e, from, m, head) {
		return false
	}
	if p.choked {
		r.drops.add(now, dropped{stats.DropQueueFull, p.listener, e.Key.Client, len(m.Payload), nil})
		if m.Mode.IsReliable() && !p.route.Bridge.AllowLossy {
			r.end(now, e, stats.ByProxy, codec.Goodbye{Reason: codec.Overflow})
		}
		return false
	}
	if from != filter.FromClient || !m.Mode.IsReliable() {
		return true
	}
	l := r.guard.exceeded(now, r.guard.limits.messages, &p.meter, len(m.Payload))
	if l == nil {
		return true
	}
	r.drops.add(now, dropped{stats.DropRate, p.listener, e.Key.Client, len(m.Payload), l.why})
	return r.applyVerdict(now, e, l.Verdict, l.String())
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

// applyVerdict applies a verdict to a session. It reports whether the judged message or datagram may go on.
func (r *Relay) applyVerdict(now time.Time, e *entry, v ratelimit.Verdict, why string) bool {
	switch v {
	case ratelimit.Disconnect:
		r.end(now, e, stats.ByProxy, codec.Goodbye{Reason: codec.Kicked})
	case ratelimit.BanSource:
		r.banSource(now, e, why)
	}
	return v < ratelimit.Drop
}

// banSource ends a session. It bans the address only if the client has proved it. Otherwise an attacker could get a
// forged address banned.
func (r *Relay) banSource(now time.Time, e *entry, why string) {
	p := &e.Value
	reason := codec.Kicked
	if p.proved() && p.client.up && p.upstream.up {
		ban := r.guard.bans.Offend(now, e.Key.Client.Addr(), why)
		r.journal.banned(now, e, &ban)
		reason = codec.Banned
	}
	r.end(now, e, stats.ByProxy, codec.Goodbye{Reason: reason})
}

// EnforceBans ends the sessions of clients that were banned after they joined, over some turns.
func (r *Relay) EnforceBans(now time.Time) { r.bansEnforced.begin(r, now, (*Relay).enforceBan) }

func (r *Relay) enforceBan(now time.Time, e *entry) int {
	if e.Value.isEnding() || r.guard.bans.Find(now, e.Key.Client.Addr()) == nil {
		return looked
	}
	r.dismiss(now, e, codec.Goodbye{Reason: codec.Banned})
	return acted
}
