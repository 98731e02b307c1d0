package relay

import (
	"cmp"
	"slices"
	"time"

	"tidegate/proxy/stats"
	"tidegate/session"
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
