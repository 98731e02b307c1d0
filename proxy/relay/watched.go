package relay

import (
	"cmp"
	"slices"
	"tidegate/codec"
	"tidegate/internal/filter"
	"tidegate/proxy/stats"
	sessions "tidegate/session"
	"time"
)

// Bounds of watches.
const (
	maxWatches  = 16  // of a Relay
	maxKinds    = 256 // kinds of messages that a watch counts by themselves
	otherKindID = -2  // the ID of all other kinds
)

// MessageKind is a kind of a session's messages.
type MessageKind struct {
	From filter.Direction
	Mode codec.Mode
	ID   int // -1: the message has none; -2: all kinds beyond a bound
}

// MessageCount is the traffic of a kind.
type MessageCount struct {
	MessageKind
	stats.Traffic
}

// Watched is the state of a watched session.
type Watched struct {
	Session  Session
	Messages []MessageCount // since the watch began, by kind
	Limits   []LimitWhy     // limits that its next datagram would break
	Drops    []stats.RecentDrop
}

// watch counts a session's messages by their kind, while an operator looks at the session.
type watch struct {
	entry *Entry
	kinds map[MessageKind]*stats.Traffic
}

// watches are a Relay's watches. Without one, a message costs one comparison.
type watches map[sessions.ID]*watch

// count counts a message of a session, if the session is watched.
func (w watches) count(id sessions.ID, from filter.Direction, m *codec.Message) {
	if len(w) == 0 {
		return
	}
	one := w[id]
	if one == nil {
		return
	}
	kind := MessageKind{from, m.Mode, -1}
	if m.HasID {
		kind.ID = int(m.ID)
	}
	traffic := one.kinds[kind]
	if traffic == nil && len(one.kinds) >= maxKinds {
		kind.ID = otherKindID
		traffic = one.kinds[kind]
	}
	if traffic == nil {
		traffic = new(stats.Traffic)
		one.kinds[kind] = traffic
	}
	traffic.Add(m)
}

// watched copies the state of a session.
func watched(now time.Time, r *Relay, e *Entry) *Watched {
	var why Why
	why.note(r.guard.UsedUpBy(now, &e.Value.meter), e.Value.serial)
	all := &Watched{
		Session: r.Describe(now, e), Limits: why.Limits, Drops: r.drops.recent.Of(e.Key.Client.Addr(), nil),
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

// Watch begins to count a session's messages by kind, unless there are too many watches, and returns its state.
func (r *Relay) Watch(now time.Time, e *Entry) *Watched {
	if len(r.watches) < maxWatches {
		r.watches[e.Value.serial] = &watch{e, make(map[MessageKind]*stats.Traffic)}
	}
	return watched(now, r, e)
}

// Watched returns the state of a watched session, or nil.
func (r *Relay) Watched(now time.Time, id sessions.ID) *Watched {
	if w := r.watches[id]; w != nil {
		return watched(now, r, w.entry)
	}
	return nil
}

// Unwatch ends a watch.
func (r *Relay) Unwatch(id sessions.ID) { delete(r.watches, id) }
