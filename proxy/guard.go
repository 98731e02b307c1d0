package proxy

import (
	"net/netip"
	"time"

	"tidegate/codec"
	"tidegate/internal/filter"
	"tidegate/proxy/stats"
	"tidegate/ratelimit"
)

// guard is what decides about the present: who may come in, and what may pass. Strangers are judged in mayEnter and
// mayAsk, datagrams of sessions in mayPass, and messages in mayCross.
type guard struct {
	start   time.Time
	bans    *ratelimit.Bans
	filters filters
	limits  limits
	seen    *ratelimit.SeenFilter // who have asked for a session while many did

	all       node // of all sessions
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
func (r *Relay) mayEnter(now time.Time, d *door, from netip.AddrPort, datagram []byte) bool {
	if r.guard.bans.Find(now, from.Addr()) != nil {
		r.drop(now, stats.DropBanned, d, from, len(datagram), nil)
		return false
	}
	if l := r.strangerWithin(now, r.guard.limits.strangers, from, len(datagram)); l != nil {
		r.drop(now, stats.DropRate, d, from, len(datagram), l.why)
		return false
	}
	return r.mayCome(now, d, from, len(datagram))
}

// mayAsk judges a newcomer that asks for a session. When many do who have not proved their address, each must ask twice:
// real clients repeat themselves, and whoever forges addresses at random does not.
func (r *Relay) mayAsk(now time.Time, d *door, from netip.AddrPort, size int, proved bool) bool {
	g, rules := &r.guard, r.guard.limits.handshakes[1]
	if !proved {
		rules = g.limits.handshakes[0]
		if r.crowded(now) && !g.seen.Seen(r.sinceStart(now), from) {
			r.drop(now, stats.DropAskAgain, d, from, size, nil)
			return false
		}
	}
	if l := r.strangerWithin(now, rules, from, size); l != nil {
		r.drop(now, stats.DropHandshakes, d, from, size, l.why)
		return false
	}
	return true
}

// crowded reports whether so many ask, or are half-open, that half of what may be is reached, or more comes than the loop can read:
// a session takes twenty times as long to open as a datagram to read.
func (r *Relay) crowded(now time.Time) bool {
	if r.backlog.overrun() {
		return true
	}
	l := &r.guard.limits
	if l.calm.PerSecond > 0 && !l.calmed.Take(r.sinceStart(now), l.calm, 1) {
		return true
	}
	return 2*r.table.HalfOpen() >= r.settings.Limits.HalfOpen
}

// mayPass judges a client's datagram before its session sees it.
func (r *Relay) mayPass(now time.Time, d *door, m *meter, from netip.AddrPort, size int) bool {
	if l := r.exceeded(now, r.guard.limits.datagrams, m, size); l != nil {
		r.drop(now, stats.DropRate, d, from, size, l.why)
		return false
	}
	return true
}

// mayRelay judges a client's datagram of a session in ModeRelay. Nobody can tell whether it is the client's own, so that the
// hardest verdict is to drop it.
func (r *Relay) mayRelay(now time.Time, d *door, m *meter, from netip.AddrPort, size int) bool {
	if !r.mayPass(now, d, m, from, size) {
		return false
	}
	if l := r.exceeded(now, r.guard.limits.accepted, m, size); l != nil {
		r.drop(now, stats.DropRate, d, from, size, l.why)
		return false
	}
	return true
}

// accepted judges a client's datagram that its connection has accepted. Where it is one too many, the session ends.
func (r *Relay) accepted(now time.Time, e *entry, size int) {
	if l := r.exceeded(now, r.guard.limits.accepted, &e.Value.meter, size); l != nil {
		r.drop(now, stats.DropRate, e.Value.door, e.Key.Client, size, l.why)
		r.applyVerdict(now, e, l.Verdict, l.String())
	}
}

// mayCross judges a message that a side of a session sent, before it goes on to the other.
func (r *Relay) mayCross(now time.Time, e *entry, from filter.Direction, m *codec.Message) bool {
	p := &e.Value
	if !r.maySay(now, e, from, m) {
		return false
	}
	if p.choked {
		r.drop(now, stats.DropQueueFull, p.door, e.Key.Client, len(m.Payload), nil)
		if m.Mode.IsReliable() && !p.route.Bridge.AllowLossy {
			r.end(now, e, stats.ByProxy, codec.Goodbye{Reason: codec.Overflow})
		}
		return false
	}
	if from != filter.FromClient || !m.Mode.IsReliable() {
		return true
	}
	l := r.exceeded(now, r.guard.limits.messages, &p.meter, len(m.Payload))
	if l == nil {
		return true
	}
	r.drop(now, stats.DropRate, p.door, e.Key.Client, len(m.Payload), l.why)
	return r.applyVerdict(now, e, l.Verdict, l.String())
}

// exceeded asks rules about something of a session. Where one stops it, it returns that.
func (r *Relay) exceeded(now time.Time, rules []*rule, m *meter, size int) *rule {
	at := r.sinceStart(now)
	for _, l := range rules {
		if !r.at(m, l.Per).buckets[l.Of].Take(at, l.Rate, l.weight(size)) && r.breaks(l) {
			return l
		}
	}
	return nil
}

// applyVerdict does to a session what a verdict says, and reports whether what the verdict is about may go on.
func (r *Relay) applyVerdict(now time.Time, e *entry, v ratelimit.Verdict, why string) bool {
	switch v {
	case ratelimit.Disconnect:
		r.end(now, e, stats.ByProxy, codec.Goodbye{Reason: codec.Kicked})
	case ratelimit.BanSource:
		r.banSource(now, e, why)
	}
	return v < ratelimit.Drop
}

// banSource ends a session, and bans its address if the client has proved it: who forges an address must not be able to
// have it banned.
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

// EnforceBans ends the sessions whose clients have been banned since they came.
func (r *Relay) EnforceBans(now time.Time) {
	for e := range r.table.All {
		if !e.Value.isEnding() && r.guard.bans.Find(now, e.Key.Client.Addr()) != nil {
			r.dismiss(now, e, codec.Goodbye{Reason: codec.Banned})
		}
	}
}
