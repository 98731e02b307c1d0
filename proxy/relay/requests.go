package relay

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"tidegate/codec"
	"tidegate/internal/upstream"
	"tidegate/proxy/relay/recording"
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

func (r *Relay) kick(now time.Time, e *Entry, text string) error {
	if e.Value.life.isEnding() {
		return ErrEnding
	}
	r.journal.because(e, "an operator")
	r.dismiss(now, e, codec.Goodbye{Reason: codec.Kicked, Text: text})
	return nil
}

// moveTime is how long a session moved by an operator looks for a server, if its route holds no sessions.
const moveTime = 10 * time.Second

// ErrNotMovable reports a session that is not established, is moving already, or is relayed. The state of a relayed
// session is only at its server.
var ErrNotMovable = errors.New("session cannot be moved")

// staysBecause returns why a session cannot be moved to a server, or nothing.
func (s *link) staysBecause(to netip.AddrPort) string {
	switch {
	case s.isRelayed():
		return "it is relayed, and only its server knows its state"
	case s.call != nil:
		return "its server speaks NetherNet, and only that server knows its state"
	case s.life.isEnding() || s.life.hasJoined() && !s.client.Live():
		return "it is ending"
	case s.life.isJoining():
		return "it is not established yet"
	case s.life.isHeld():
		return "it is between two servers already"
	case !s.upstream.up:
		return "its server has not accepted it yet"
	case s.server != nil && s.server.Addr == to:
		return "it is at that server already"
	}
	return ""
}

// move begins to move a session to a server. The zero address means any server.
func (r *Relay) move(now time.Time, e *Entry, to netip.AddrPort) error {
	s := &e.Value
	if cause := s.staysBecause(to); cause != "" {
		return fmt.Errorf("%w: %s", ErrNotMovable, cause)
	}
	if to.IsValid() {
		server := s.route.pool.Take(to)
		if server == nil {
			return upstream.ErrUnknown
		}
		s.route.pool.Release(server)
	}
	r.carrier.SendJoined(now, &s.upstream.Sender)
	r.carried(now, e)
	r.counters.Moved++
	r.hold(now, e, moving, hold{
		until: now.Add(max(s.route.Failover.Hold, moveTime)), to: to, departure: departure{limit: now.Add(quiesceTime)},
	})
	r.settle(now, e)
	return nil
}

// ErrEnded reports that a change came too late, since the Server is ending.
var ErrEnded = errors.New("this process is ending; after an upgrade, ask the new one")

// capture copies datagrams into a Spool from now on, as its filter selects.
func (r *Relay) capture(s *recording.Spool) {
	r.sockets.insertTap(r.table)
	r.sockets.tap.spools = append(r.sockets.tap.spools, s)
}

// record copies all datagrams into a BlackBox from now on.
func (r *Relay) record(b *recording.BlackBox) {
	r.sockets.insertTap(r.table)
	r.sockets.tap.box = b
}

func (r *Relay) endCapture(s *recording.Spool) {
	o := &r.sockets
	if o.tap == nil {
		return
	}
	if o.tap.spools = slices.DeleteFunc(o.tap.spools,
		func(other *recording.Spool) bool { return other == s }); len(o.tap.spools) == 0 && o.tap.box == nil {
		o.Sockets, o.tap = o.tap.Sockets, nil
	}
}

// KnownClients returns the number of clients that have answered and whose addresses the kernel sees, and the number of
// changes of that set.
func (r *Relay) KnownClients() (count int, changes uint64) { return r.known.count, r.known.changes }

// recallCaptured is the visit that ends the forwarding of a session that a capture watches.
func recallCaptured(r *Relay, _ time.Time, e *Entry) int {
	if e.Value.shortcut == nil || !r.offload.watches(e) {
		return looked
	}
	r.offload.recall(e)
	return acted
}
