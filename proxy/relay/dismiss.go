package relay

import (
	"time"

	"tidegate/codec"
	"tidegate/internal/filter"
	"tidegate/proxy/stats"
)

// DrainBy refuses all new clients. Sessions may go on until they end, or until the given time. Then they get a
// goodbye. A second call can only choose an earlier time.
func (r *Relay) DrainBy(now, at time.Time) {
	if !r.draining || at.Before(r.drainBy) {
		r.draining, r.leaving, r.drainBy = true, false, at
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
	r.pingers, r.queriers = nil, nil
	closeCheckers(now, r)
	r.walk(now, func(r *Relay, now time.Time, e *Entry) int {
		r.dismiss(now, e, codec.Goodbye{Reason: codec.ServerStopped})
		return acted
	}, nil)
}

// Draining reports whether the Relay refuses new clients.
func (r *Relay) Draining() bool { return r.draining }

// Leaving reports whether the Relay was asked to Leave.
func (r *Relay) Leaving() bool { return r.leaving }

// Drained reports whether the Relay drains and has no session left. A session leaves when its goodbyes are finished
// or given up.
func (r *Relay) Drained() bool { return r.draining && !r.leaving && r.table.Len() == 0 }

// dismiss ends a terminated or relayed session. The client learns why, where its protocol can say it.
func (r *Relay) dismiss(now time.Time, e *Entry, why codec.Goodbye) {
	if e.Value.isRelayed() {
		r.endRelayed(now, e, stats.ByProxy, why.Reason)
		return
	}
	r.end(now, e, stats.ByProxy, why)
	r.settle(now, e)
}

// EnforceBans ends the sessions of clients that were banned after they joined, over some turns.
func (r *Relay) EnforceBans(now time.Time) { r.bansEnforced.begin(r, now, enforceBan) }

// enforceBan is the visit for EnforceBans.
func enforceBan(r *Relay, now time.Time, e *Entry) int {
	if e.Value.life.isEnding() {
		return looked
	}
	ban := r.guard.Bans.Find(now, e.Key.Client.Addr())
	if ban == nil {
		return looked
	}
	r.journal.becauseBanned(e, ban.Prefix)
	r.dismiss(now, e, codec.Goodbye{Reason: codec.Banned})
	return acted
}

// filter replaces the rules.
func (r *Relay) filter(now time.Time, set *filter.Set) {
	if r.guard.SetRules(set) {
		r.rulesEnforced.begin(r, now, enforceRules)
	}
}

// enforceRules is the visit for SetRules.
func enforceRules(r *Relay, now time.Time, e *Entry) int {
	if e.Value.life.isEnding() {
		return looked
	}
	rule, isRefused := r.guard.RefusedBy(e.Value.listener.name, e.Key.Client.Addr())
	if !isRefused {
		return looked
	}
	r.journal.because(e, "rule "+rule)
	r.dismiss(now, e, codec.Goodbye{Reason: codec.Banned})
	return acted
}
