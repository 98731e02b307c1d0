package proxy

import (
	"time"

	"tidegate/codec"
)

// DrainBy lets no one in any more. Sessions may go on until they end by themselves, or until they are told goodbye at
// the given time. A second call can only bring that forward.
func (r *Relay) DrainBy(now, at time.Time) {
	if !r.draining || at.Before(r.drainBy) {
		r.draining, r.drainBy = true, at
	}
	r.drainDue(now)
}

// Drain lets no one in any more and says goodbye to every client and upstream. Drained tells when that is done.
func (r *Relay) Drain(now time.Time) { r.DrainBy(now, now) }

// drainDue says goodbye once its time has come.
func (r *Relay) drainDue(now time.Time) {
	if !r.draining || r.farewell || now.Before(r.drainBy) {
		return
	}
	r.farewell = true
	r.journal.settle(now)
	r.pingers = nil
	r.closeCheckers(now)
	for e := range r.table.All {
		r.dismiss(now, e, codec.Goodbye{Reason: codec.ServerStopped})
	}
}

// Drained reports whether no one is let in and no session is left: all have ended, or given up their goodbyes.
func (r *Relay) Drained() bool { return r.draining && r.table.Len() == 0 }
