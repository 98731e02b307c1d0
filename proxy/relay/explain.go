package relay

import (
	"net/netip"
	"slices"
	"tidegate/internal/filter"
	"tidegate/proxy/stats"
	"tidegate/ratelimit"
	"time"
)

// Why has the bans, rules and limits that decide about an address now.
type Why struct {
	Address  netip.Addr
	Place    filter.Place
	Ban      *ratelimit.Ban // the ban in force; nil: none
	Sources  []SourceWhy    // for each listener
	Limits   []LimitWhy     // limits that its next datagram would break
	Sessions []Session
	Drops    []stats.RecentDrop // oldest first
}

// SourceWhy is the judgement of the rules about sources on an address at a listener.
type SourceWhy struct {
	Listener string
	Rule     string // the rule that decides; empty: none
	Verdict  ratelimit.Verdict
	Observed []string // earlier rules that match and only observe
}

// LimitWhy is a limit that is used up.
type LimitWhy struct {
	Limit   string // as in logs, for example "packets per address"
	Verdict ratelimit.Verdict
	Session SessionID // the session; 0: the limit is that of strangers at the address
}

// JudgeSources applies the rules about sources at each listener. The proxy of the settings need not run.
func JudgeSources(s *Settings, set *filter.Set, a netip.Addr) []SourceWhy {
	var all []SourceWhy
	for i := range s.Listeners {
		if i > 0 && s.Listeners[i].Name == s.Listeners[i-1].Name {
			continue // another port of the same listener
		}
		match := set.Source(s.Listeners[i].Name, a)
		one := SourceWhy{Listener: s.Listeners[i].Name, Verdict: match.Verdict}
		names := set.SourceNames()
		if match.Rule >= 0 {
			one.Rule = names[match.Rule]
		}
		for i := range match.Observed.All {
			one.Observed = append(one.Observed, names[i])
		}
		all = append(all, one)
	}
	return all
}

// why returns the bans, rules and limits that decide about an address without a session. It changes nothing.
func (g *guard) why(now time.Time, a netip.Addr) Why {
	a = a.Unmap().WithZone("")
	set := g.filters.set
	w := Why{Address: a, Place: set.Place(a), Sources: JudgeSources(g.settings, set, a), Drops: g.drops.recent.Of(a, nil)}
	if ban := g.bans.Find(now, a); ban != nil {
		copied := *ban
		w.Ban = &copied
	}
	for _, rules := range [][]*rule{g.limits.strangers, g.limits.handshakes[0], g.limits.handshakes[1]} {
		for _, l := range rules {
			w.note(l, *l.bucket(a, g.settings.Networks), g.sinceStart(now), 0)
		}
	}
	return w
}

// Of returns a visit that adds the sessions of the address, and the limits that they have used up.
func (w *Why) Of(a netip.Addr) Visit {
	a = a.Unmap().WithZone("")
	return func(r *Relay, now time.Time, e *Entry) int {
		if e.Key.Client.Addr().Unmap() != a {
			return looked
		}
		w.Sessions = append(w.Sessions, r.Describe(now, e))
		r.guard.whySession(now, w, &e.Value.meter, e.Value.serial)
		return e.Value.costOfCopy()
	}
}

// whySession adds the limits that a session has used up.
func (g *guard) whySession(now time.Time, w *Why, m *meter, id SessionID) {
	limits := &g.limits
	for _, rules := range [][]*rule{limits.datagrams, limits.accepted, limits.messages} {
		for _, l := range rules {
			w.note(l, g.at(m, l.Per).buckets[l.Of], g.sinceStart(now), id)
		}
	}
	for _, l := range limits.queues {
		if g.at(m, l.Per).queued >= l.Rate.PerSecond {
			w.Limits = append(w.Limits, LimitWhy{l.String(), l.Verdict, id})
		}
	}
}

// note adds a limit if its bucket would not let one more pass. b is a copy of the bucket.
func (w *Why) note(l *rule, b ratelimit.Bucket, now time.Duration, id SessionID) {
	one := LimitWhy{l.String(), l.Verdict, id}
	if !b.Take(now, l.Rate, 1) && !slices.Contains(w.Limits, one) {
		w.Limits = append(w.Limits, one)
	}
}

// Why returns the bans, rules and limits that decide about an address without a session.
func (r *Relay) Why(now time.Time, a netip.Addr) Why { return r.guard.why(now, a) }

// Add joins what another Relay says of the address.
func (w *Why) Add(o *Why) {
	if !w.Address.IsValid() {
		*w = *o
		return
	}
	for _, limit := range o.Limits {
		if !slices.Contains(w.Limits, limit) {
			w.Limits = append(w.Limits, limit)
		}
	}
	w.Sessions = append(w.Sessions, o.Sessions...)
	w.Drops = append(w.Drops, o.Drops...)
	slices.SortStableFunc(w.Drops, func(a, b stats.RecentDrop) int { return a.At.Compare(b.At) })
}
