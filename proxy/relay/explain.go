package relay

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"tidegate/internal/filter"
	"tidegate/internal/joining"
	"tidegate/proxy/stats"
	"tidegate/ratelimit"
	"tidegate/session"
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
	Joins    []joining.Join     // of NetherNet clients at the address
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
	Session session.ID // the session; 0: the limit is that of strangers at the address
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

// ExplainAddress asks for the bans, rules and limits that decide about an address, over all Relays.
type ExplainAddress struct {
	ofAll
	Address netip.Addr
	Why     Why // the answer
}

// Next implements Request.
func (q *ExplainAddress) Next(relays int) (index int, work stats.Work) {
	return q.after(relays), stats.WorkWhy
}

func (q *ExplainAddress) put(r *Relay, now time.Time) Visit {
	one := r.why(now, q.Address)
	q.Why.add(&one)
	return q.Why.of(q.Address)
}

// of returns a visit that adds the sessions of the address, and the limits that they have used up.
func (w *Why) of(a netip.Addr) Visit {
	a = a.Unmap().WithZone("")
	return func(r *Relay, now time.Time, e *Entry) int {
		if e.Key.Client.Addr().Unmap() != a {
			return looked
		}
		w.Sessions = append(w.Sessions, r.describe(now, e))
		w.note(r.guard.UsedUpBy(now, &e.Value.meter), e.Value.serial)
		return e.Value.costOfCopy()
	}
}

// note adds limits that are used up: those of a session, or with the ID 0 those of strangers.
func (w *Why) note(used []ratelimit.Limit, id session.ID) {
	for i := range used {
		one := LimitWhy{used[i].String(), used[i].Verdict, id}
		if !slices.Contains(w.Limits, one) {
			w.Limits = append(w.Limits, one)
		}
	}
}

// why returns the bans, rules and limits that decide about an address without a session. It changes nothing.
func (r *Relay) why(now time.Time, a netip.Addr) Why {
	a = a.Unmap().WithZone("")
	set := r.guard.Rules()
	w := Why{Address: a, Place: set.Place(a), Sources: JudgeSources(r.settings, set, a), Drops: r.drops.recent.Of(a, nil)}
	if ban := r.guard.Bans.Find(now, a); ban != nil {
		copied := *ban
		w.Ban = &copied
	}
	w.note(r.guard.UsedUp(now, a), 0)
	for i := range r.settings.Listeners {
		if joins := r.settings.Listeners[i].Joins; joins != nil && r.shard.index == 0 { // the siblings have the same
			w.Joins = append(w.Joins, joins.Joins(a)...)
		}
	}
	return w
}

// add joins what another Relay says of the address.
func (w *Why) add(o *Why) {
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

// ListDrops asks for the last drops that the Relays remember.
type ListDrops struct {
	ofAll
	Sources int                // the largest number of sources
	Drops   []stats.RecentDrop // the answer: sources with the most drops come first
}

// Next implements Request.
func (q *ListDrops) Next(relays int) (index int, work stats.Work) {
	if index = q.after(relays); index < 0 {
		q.sort()
	}
	return index, stats.WorkWhy
}

func (q *ListDrops) put(r *Relay, _ time.Time) Visit {
	q.Drops = append(q.Drops, r.drops.recent.All()...)
	return nil
}

// sort sorts the drops by source, and leaves out sources beyond the bound.
func (q *ListDrops) sort() {
	all, times := q.Drops, make(map[netip.Addr]uint64)
	for i := range all {
		times[all[i].From.Addr()] += all[i].Times
	}
	slices.SortFunc(all, func(a, b stats.RecentDrop) int {
		x, y := a.From.Addr(), b.From.Addr()
		return cmp.Or(cmp.Compare(times[y], times[x]), x.Compare(y), b.At.Compare(a.At))
	})
	left := q.Sources
	for i := range all {
		if i > 0 && all[i].From.Addr() != all[i-1].From.Addr() {
			if left--; left == 0 {
				q.Drops = all[:i]
				return
			}
		}
	}
}

// Watched is the state of a watched session.
type Watched struct {
	Session  Session
	Messages []MessageCount // since the watch began, by kind
	Limits   []LimitWhy     // limits that its next datagram would break
	Drops    []stats.RecentDrop
}

// watched copies the state of a session.
func watched(now time.Time, r *Relay, e *Entry) *Watched {
	var why Why
	why.note(r.guard.UsedUpBy(now, &e.Value.meter), e.Value.serial)
	all := &Watched{
		Session: r.describe(now, e), Limits: why.Limits, Drops: r.drops.recent.Of(e.Key.Client.Addr(), nil),
	}
	if w := r.watches[e.Value.serial]; w != nil {
		for kind, traffic := range w.kinds {
			all.Messages = append(all.Messages, MessageCount{kind, *traffic})
		}
	}
	slices.SortFunc(all.Messages, func(a, b MessageCount) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Mode, b.Mode))
	})
	return all
}

// WatchSession asks for the state of a session. The first such request begins to count its messages by kind, until
// UnwatchSession or the session's end. With too many watches, the oldest counts stay and the session has none.
type WatchSession struct {
	ofOne
	ID      session.ID
	Watched *Watched // the answer
}

// Next implements Request.
func (q *WatchSession) Next(relays int) (index int, work stats.Work) {
	return q.home(q.ID, relays), stats.WorkList
}

func (q *WatchSession) put(r *Relay, now time.Time) Visit {
	if w := r.watches[q.ID]; w != nil {
		q.Watched, q.err = watched(now, r, w.entry), nil
		return nil
	}
	return q.find(q.ID, func(r *Relay, now time.Time, e *Entry) error {
		if len(r.watches) < maxWatches {
			r.watches[q.ID] = &watch{e, make(map[MessageKind]*stats.Traffic)}
		}
		q.Watched = watched(now, r, e)
		return nil
	})
}

// UnwatchSession ends the count of a session's messages.
type UnwatchSession struct {
	ofOne
	ID session.ID
}

// Next implements Request.
func (q *UnwatchSession) Next(relays int) (index int, work stats.Work) {
	return q.home(q.ID, relays), stats.WorkList
}

func (q *UnwatchSession) put(r *Relay, _ time.Time) Visit {
	delete(r.watches, q.ID)
	q.err = nil
	return nil
}
