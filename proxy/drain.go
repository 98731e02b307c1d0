package proxy

import (
	"time"

	"tidegate/codec"
)

// DrainBy refuses all new clients. Sessions may go on until they end, or until the given time. Then they get a
// goodbye. A second call can only choose an earlier time.
func (r *Relay) DrainBy(now, at time.Time) {
	if !r.draining || at.Before(r.drainBy) {
		r.draining, r.drainBy = true, at
	}
	r.drainDue(now)
}

// Drain refuses all new clients, and says goodbye to every client and upstream. Drained reports when that is done.
func (r *Relay) Drain(now time.Time) { r.DrainBy(now, now) }

// drainDue says goodbye to all sessions when the time has come, over some turns.
func (r *Relay) drainDue(now time.Time) {
	if !r.draining || r.farewell || now.Before(r.drainBy) {
		return
	}
	r.farewell = true
	r.journal.settle(now)
	r.pingers = nil
	r.closeCheckers(now)
	r.walk(now, func(r *Relay, now time.Time, e *entry) int {
		r.dismiss(now, e, codec.Goodbye{Reason: codec.ServerStopped})
		return acted
	}, nil)
}

// Drained reports whether the Relay drains and has no session left. A session leaves when its goodbyes are finished
// or given up.
func (r *Relay) Drained() bool { return r.draining && r.table.Len() == 0 }
