package relay

import (
	"time"
)

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
