package relay

import (
	"time"

	"tidegate/session"
)

// Visit is called for a session, and returns the cost.
type Visit func(r *Relay, now time.Time, e *Entry) int

// walk is a visit to all sessions that a Relay has at its start.
type walk struct {
	at    *session.Walk[link]
	visit Visit
	done  func(now time.Time) // nil: none
}

// walks are a Relay's walks under way.
type walks struct {
	list []*walk
	left int       // cost that this turn may still spend
	due  time.Time // when the next slice is due; zero: no walk is under way
}

// walk visits all present sessions, with the first slice at once. done is called at the end; nil means none.
func (r *Relay) walk(now time.Time, v Visit, done func(now time.Time)) {
	w := &walk{at: r.table.Walk(), visit: v, done: done}
	if r.walks.left = w.slice(r, now, r.walks.left); w.at.Ended() {
		w.end(now)
		return
	}
	r.walks.list = append(r.walks.list, w)
	r.walks.due = now
}

// walkOn continues the walks. They share the rest of the turn's slice, each an equal part.
func (r *Relay) walkOn(now time.Time) {
	under := r.walks.list
	r.walks.list, r.walks.due = nil, time.Time{}
	for i, w := range under {
		share := max(r.walks.left/(len(under)-i), 1)
		r.walks.left -= share - w.slice(r, now, share)
		if w.at.Ended() {
			w.end(now)
			continue
		}
		r.walks.list, r.walks.due = append(r.walks.list, w), now
	}
	r.walks.left = turnSlice
}

// slice visits sessions until the cost is spent, and returns the rest of it. The last visit may cost more.
func (w *walk) slice(r *Relay, now time.Time, cost int) int {
	for cost > 0 {
		e := w.at.Next()
		if e == nil {
			return cost
		}
		if e.Value.isPending() {
			cost -= e.Value.pending.cost()
			if !complete(r, now, e) {
				continue
			}
		}
		spent := w.visit(r, now, e)
		if spent == enough {
			w.at.Stop()
			return max(cost, 0)
		}
		cost -= spent
	}
	return max(cost, 0)
}

func (w *walk) end(now time.Time) {
	if w.done != nil {
		w.done(now)
	}
}

// rounds are repeated walks with the same purpose. A request during a walk leads to one further walk, since the
// present one has already passed some sessions.
type rounds struct{ walking, again bool }

func (o *rounds) begin(r *Relay, now time.Time, v Visit) {
	if o.walking {
		o.again = true
		return
	}
	o.walking = true
	r.walk(now, v, func(now time.Time) {
		o.walking = false
		if o.again {
			o.again = false
			o.begin(r, now, v)
		}
	})
}
