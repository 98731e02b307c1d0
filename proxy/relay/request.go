package relay

import (
	"cmp"
	"time"

	"tidegate/proxy/stats"
	"tidegate/session"
)

// Request is a question or an order from outside the loops. A driver puts it to Relays one after another, without
// knowing what it asks. The answer is in the request then. Each request is put once.
//
//	for i, work := q.Next(relays); i >= 0; i, work = q.Next(relays) {
//		relay[i].Ask(now, q, wanted, done) // in a turn whose time counts as work; then wait until done is called
//	}
type Request interface {
	// Next returns the index of the Relay that is asked next, of so many, and what the time for it counts as. The index
	// is -1 when the request is answered.
	Next(relays int) (index int, work stats.Work)
	// Err returns why the request has failed, or nil. asking is why a Relay could not be asked; nil: all were.
	Err(asking error) error
	// put begins to ask a Relay, and returns the visit to all its sessions that follows; nil: none.
	put(r *Relay, now time.Time) Visit
}

// Ask puts a request to the Relay. It calls done in this turn or a later one, and early if wanted returns false.
func (r *Relay) Ask(now time.Time, q Request, wanted func() bool, done func()) {
	visit := q.put(r, now)
	if visit == nil {
		done()
		return
	}
	r.walk(now, func(r *Relay, now time.Time, e *Entry) int {
		if !wanted() {
			return enough
		}
		return visit(r, now, e)
	}, func(time.Time) { done() })
}

// ofAll is the part of a request to all Relays that counts them.
type ofAll struct{ asked int }

// after returns the index of the next Relay that was not asked yet, or -1.
func (a *ofAll) after(relays int) int {
	if a.asked == relays {
		return -1
	}
	a.asked++
	return a.asked - 1
}

// Err implements Request: no Relay refuses such a request.
func (a *ofAll) Err(asking error) error { return asking }

// ofOne is the part of a request about one session.
type ofOne struct {
	asked bool
	err   error
}

// home returns the index of the Relay that a session belongs to, and -1 the second time.
func (o *ofOne) home(id session.ID, relays int) int {
	if o.asked {
		return -1
	}
	o.asked, o.err = true, ErrNoSession
	return id.Shard(relays)
}

// Err implements Request. It is ErrNoSession if there is no such session.
func (o *ofOne) Err(asking error) error { return cmp.Or(asking, o.err) }

// find returns a visit that does something with the session of an ID.
func (o *ofOne) find(id session.ID, do func(r *Relay, now time.Time, e *Entry) error) Visit {
	return func(r *Relay, now time.Time, e *Entry) int {
		if e.Value.serial != id {
			return looked
		}
		o.err = do(r, now, e)
		return enough
	}
}
