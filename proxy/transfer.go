package proxy

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"tidegate/internal/upstream"
	"tidegate/proxy/stats"
)

// moveTime is how long a session moved by an operator looks for a server, if its route holds no sessions.
const moveTime = 10 * time.Second

// ErrNotMovable reports a session that is not established, is moving already, or is relayed. The state of a relayed
// session is only at its server.
var ErrNotMovable = errors.New("session cannot be moved")

// staysBecause returns why a session cannot be moved to a server, or nothing.
func (p *session) staysBecause(to netip.AddrPort) string {
	switch {
	case p.isRelayed():
		return "it is relayed, and only its server knows its state"
	case p.ending || p.established && !p.client.Live():
		return "it is ending"
	case !p.established:
		return "it is not established yet"
	case p.hold != nil:
		return "it is between two servers already"
	case !p.upstream.up:
		return "its server has not accepted it yet"
	case p.server != nil && p.server.Addr == to:
		return "it is at that server already"
	}
	return ""
}

// Transfer moves an established session to another server of its upstream. The new server gets the client's Hello.
// Until it has accepted, reliable messages of the client wait. The old server keeps the messages that it has
// acknowledged, and the new server gets the later ones. A server that refuses the session counts as lost, and the
// Relay tries others.
func (s *Server) Transfer(ctx context.Context, id SessionID, to netip.AddrPort) error {
	return s.atHome(ctx, id, func(r *Relay, now time.Time, e *entry) error { return r.move(now, e, to) })
}

// TransferServer moves all sessions of a server to other servers, as the upstream balances new sessions. It drains
// the server, so that no session comes back. It returns the number of sessions on their way.
func (s *Server) TransferServer(ctx context.Context, upstreamName string, from netip.AddrPort) (moved int, err error) {
	pool, err := s.pool(upstreamName)
	if err != nil {
		return 0, err
	}
	if err := s.setDrain(upstreamName, from, true); err != nil {
		return 0, err
	}
	for _, l := range s.loops {
		n := 0
		if failed := l.walk(ctx, stats.WorkMove, moving(pool, from, &n)); failed != nil {
			err = errors.Join(err, failed)
			continue // the loop may still count
		}
		moved += n
	}
	return moved, err
}

// moving returns a visit that moves the sessions of a server, and counts them.
func moving(pool *upstream.Pool, from netip.AddrPort, moved *int) visit {
	return func(r *Relay, now time.Time, e *entry) int {
		p := &e.Value
		if p.server == nil || p.server.Addr != from || p.route.pool != pool {
			return looked
		}
		if r.move(now, e, netip.AddrPort{}) == nil {
			*moved++
		}
		return acted
	}
}

// move begins to move a session to a server. The zero address means any server.
func (r *Relay) move(now time.Time, e *entry, to netip.AddrPort) error {
	p := &e.Value
	if cause := p.staysBecause(to); cause != "" {
		return fmt.Errorf("%w: %s", ErrNotMovable, cause)
	}
	if to.IsValid() {
		server := p.route.pool.Take(to)
		if server == nil {
			return upstream.ErrUnknown
		}
		p.route.pool.Release(server)
	}
	r.carrier.SendJoined(now, &p.upstream.Sender)
	r.carried(now, e)
	r.counters.Moved++
	p.hold = &hold{since: now, until: now.Add(max(p.route.Failover.Hold, moveTime)), to: to, phase: quiescing}
	p.hold.departure.limit = now.Add(quiesceTime)
	r.waiting.queue(e)
	p.upstream.Away = true
	p.expires = p.hold.until
	r.settle(now, e)
	return nil
}
