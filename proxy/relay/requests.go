package relay

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"tidegate/codec"
	"tidegate/internal/upstream"
	"tidegate/proxy/relay/recording"
)

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
