package relay

import (
	"cmp"
	"math"
	"net/netip"
	"sync/atomic"
	"time"

	"tidegate/internal/filter"
	"tidegate/internal/upstream"
	"tidegate/proxy/relay/recording"
	"tidegate/proxy/stats"
	"tidegate/session"
)

// KickSession ends a session for an operator. The client learns that it was kicked, and gets the text where its
// protocol can carry one. A client of a route in ModeRelay learns nothing.
type KickSession struct {
	ofOne
	ID   session.ID
	Text string
}

// Next implements Request.
func (q *KickSession) Next(relays int) (index int, work stats.Work) {
	return q.home(q.ID, relays), stats.WorkList
}

func (q *KickSession) put(*Relay, time.Time) Visit {
	return q.find(q.ID, func(r *Relay, now time.Time, e *Entry) error { return r.kick(now, e, q.Text) })
}

// MoveSession moves an established session to another server of its upstream. The new server gets the client's Hello.
// Until it has accepted, reliable messages of the client wait. The old server keeps the messages that it has
// acknowledged, and the new server gets the later ones. A server that refuses the session counts as lost, and the
// Relay tries others.
type MoveSession struct {
	ofOne
	ID session.ID
	To netip.AddrPort // the zero AddrPort: any server
}

// Next implements Request.
func (q *MoveSession) Next(relays int) (index int, work stats.Work) {
	return q.home(q.ID, relays), stats.WorkList
}

func (q *MoveSession) put(*Relay, time.Time) Visit {
	return q.find(q.ID, func(r *Relay, now time.Time, e *Entry) error { return r.move(now, e, q.To) })
}

// order is a request to all Relays without an answer of its own.
type order struct {
	ofAll
	work stats.Work
	do   func(r *Relay, now time.Time) Visit
}

// Next implements Request.
func (o *order) Next(relays int) (index int, work stats.Work) { return o.after(relays), o.work }

func (o *order) put(r *Relay, now time.Time) Visit { return o.do(r, now) }

// MoveSessions moves the sessions of a server, as the upstream balances new sessions. It adds the number of sessions on
// their way to moved.
func MoveSessions(pool *upstream.Pool, from netip.AddrPort, moved *int) Request {
	return &order{work: stats.WorkMove, do: func(*Relay, time.Time) Visit {
		return func(r *Relay, now time.Time, e *Entry) int {
			s := &e.Value
			if s.server == nil || s.server.Addr != from || s.route.pool != pool {
				return looked
			}
			if r.move(now, e, netip.AddrPort{}) == nil {
				*moved++
			}
			return acted
		}
	}}
}

// StartCapture makes all Relays copy datagrams into a Capture, until EndCapture. From then on, the kernel does not
// forward the captured sessions.
func StartCapture(c *recording.Capture) Request {
	return &order{work: stats.WorkCapture, do: func(r *Relay, _ time.Time) Visit {
		r.capture(c.Spool(r.shard.index))
		return recallCaptured
	}}
}

// EndCapture ends the effect of StartCapture, also in Relays that have not seen that request.
func EndCapture(c *recording.Capture) Request {
	return &order{work: stats.WorkCapture, do: func(r *Relay, _ time.Time) Visit {
		r.endCapture(c.Spool(r.shard.index))
		return nil
	}}
}

// KnownClients calls know with the address of each client that is no stranger and that the kernel sees.
func KnownClients(know func(netip.AddrPort)) Request {
	return &order{work: stats.WorkSample, do: func(*Relay, time.Time) Visit {
		return func(_ *Relay, _ time.Time, e *Entry) int {
			if e.Value.isKnown() && e.Value.listener.seesClients() {
				know(e.Key.Client)
			}
			return looked
		}
	}}
}

// Leave makes the Relays refuse new clients, and lets the sessions play on until they move to other nodes.
func Leave() Request {
	return &order{work: stats.WorkDrain, do: func(r *Relay, now time.Time) Visit {
		if !r.draining {
			r.draining, r.leaving, r.drainBy = true, true, now.Add(math.MaxInt64/2)
		}
		return nil
	}}
}

// SetRules replaces the rules in every Relay. It ends sessions of clients that the new rules drop, over some turns.
func SetRules(set *filter.Set) Request {
	return &order{work: stats.WorkRules, do: func(r *Relay, now time.Time) Visit {
		r.filter(now, set)
		return nil
	}}
}

// CountSessions adds the number of sessions to n.
func CountSessions(n *int) Request {
	return &order{work: stats.WorkList, do: func(r *Relay, _ time.Time) Visit {
		*n += r.table.Len()
		return nil
	}}
}

// RecordSession asks for the whole state of a session as values for JSON, without secrets and payloads.
type RecordSession struct {
	ofOne
	ID    session.ID
	State map[string]any // the answer
	bytes []byte
}

// Next implements Request. The caller's goroutine describes the record, and not the loop.
func (q *RecordSession) Next(relays int) (index int, work stats.Work) {
	if index = q.home(q.ID, relays); index < 0 && q.err == nil {
		q.State, q.err = describeRecord(q.bytes)
	}
	return index, stats.WorkList
}

func (q *RecordSession) put(*Relay, time.Time) Visit {
	return q.find(q.ID, func(r *Relay, now time.Time, e *Entry) (err error) {
		q.bytes, err = r.writeDown(now, e)
		return err
	})
}

// TakeOutSession removes an established session without a goodbye, for PutInSession of this or another Server. After a
// failure elsewhere, PutInSession can give it back. ErrNotMovable names the reason why a session stays.
type TakeOutSession struct {
	ofOne
	ID      session.ID
	Record  []byte        // the answer
	claimed atomic.Bool   // by the Relay, or by Err if its driver gives up first
	taken   chan struct{} // closed when the Relay has answered
}

// Next implements Request.
func (q *TakeOutSession) Next(relays int) (index int, work stats.Work) {
	if !q.asked {
		q.taken = make(chan struct{})
	}
	return q.home(q.ID, relays), stats.WorkList
}

func (q *TakeOutSession) put(*Relay, time.Time) Visit {
	return q.find(q.ID, func(r *Relay, now time.Time, e *Entry) (err error) {
		if !q.claimed.CompareAndSwap(false, true) {
			return ErrEnded // nothing would receive the session
		}
		defer close(q.taken)
		q.Record, err = r.takeOut(now, e)
		return err
	})
}

// Err implements Request. A driver that gave up has the session if the Relay was faster.
func (q *TakeOutSession) Err(asking error) error {
	if asking != nil && !q.claimed.CompareAndSwap(false, true) {
		if <-q.taken; q.Record != nil {
			return nil
		}
	}
	return cmp.Or(asking, q.err)
}

// PutInSession takes in a session from TakeOutSession. The session goes on with the next datagram of its client. If
// that does not come within ArrivalTime, the session is lost.
type PutInSession struct {
	Record []byte
	asked  bool
	err    error
}

// Next implements Request. Any Relay can answer for its siblings.
func (q *PutInSession) Next(int) (index int, work stats.Work) {
	if q.asked {
		return -1, stats.WorkMove
	}
	q.asked = true
	return 0, stats.WorkMove
}

func (q *PutInSession) put(r *Relay, now time.Time) Visit {
	a, err := readArrival(now, q.Record)
	if err == nil {
		err = a.room(r, 0)
	}
	if err == nil {
		err = a.fits(now, r)
	}
	if err == nil {
		err = r.arrivals.Add(now, a)
	}
	q.err = err
	return nil
}

// Err implements Request.
func (q *PutInSession) Err(asking error) error { return cmp.Or(asking, q.err) }
