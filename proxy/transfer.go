package proxy

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"tidegate/proxy/relay"
	"tidegate/proxy/stats"
	sessions "tidegate/session"
)

// Transfer moves an established session to another server of its upstream. The new server gets the client's Hello.
// Until it has accepted, reliable messages of the client wait. The old server keeps the messages that it has
// acknowledged, and the new server gets the later ones. A server that refuses the session counts as lost, and the
// Relay tries others.
func (s *Server) Transfer(ctx context.Context, id sessions.ID, to netip.AddrPort) error {
	return s.atHome(ctx, id, func(r *relay.Relay, now time.Time, e *relay.Entry) error { return r.Move(now, e, to) })
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
		if failed := l.walk(ctx, stats.WorkMove, relay.Moving(pool, from, &n)); failed != nil {
			err = errors.Join(err, failed)
			continue // the loop may still count
		}
		moved += n
	}
	return moved, err
}
