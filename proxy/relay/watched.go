package relay

import (
	"cmp"
	"slices"
	"time"

	"tidegate/proxy/stats"
	sessions "tidegate/session"
)

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
