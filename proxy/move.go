package proxy

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"tidegate/codec"
	"tidegate/internal/upstream"
)

// ErrNotMovable is of a session that is not established, is moving already, or is of a route in ModeRelay, whose server
// alone knows what was said.
var ErrNotMovable = errors.New("session cannot be moved")

// Transfer moves an established session to another server of its upstream, which is asked with what the client joined
// with. Until then what the client sends reliably waits; the old server has what it acknowledged, and the new one what
// came later. A server that will not take the session counts as one that is lost: others are tried.
func (s *Server) Transfer(ctx context.Context, id SessionID, to netip.AddrPort) error {
	return s.atHome(ctx, id, func(r *Relay, now time.Time) error {
		e := r.table.find(id)
		if e == nil {
			return ErrNoSession
		}
		return r.move(now, e, to)
	})
}

// TransferServer moves all sessions of a server to others of its upstream, as they are balanced, and drains it so that
// none comes back. It returns how many are on their way.
func (s *Server) TransferServer(ctx context.Context, upstreamName string, from netip.AddrPort) (moved int, err error) {
	pool, err := s.pool(upstreamName)
	if err != nil {
		return 0, err
	}
	if err := pool.Drain(time.Now(), from, true); err != nil {
		return 0, err
	}
	for _, l := range s.loops {
		err = errors.Join(err, l.consult(ctx, func(r *Relay, now time.Time) { moved += r.moveAll(now, pool, from) }))
	}
	return moved, err
}

func (r *Relay) moveAll(now time.Time, pool *upstream.Pool, from netip.AddrPort) (moved int) {
	for e := range r.table.All {
		p := &e.Value
		if p.server == nil || p.server.Addr != from || p.route.pool != pool {
			continue
		}
		if r.move(now, e, netip.AddrPort{}) == nil {
			moved++
		}
	}
	return moved
}

// move begins to move a session to a server, or to any if that is zero.
func (r *Relay) move(now time.Time, e *entry, to netip.AddrPort) error {
	p := &e.Value
	if p.isRelayed() || !p.established || p.ending || p.hold != nil || !p.upstream.up || !p.client.Live() {
		return ErrNotMovable
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

const (
	// quiesceTime is how long a server that is left may take to acknowledge what it was sent.
	quiesceTime = 2 * time.Second
	// tickTime is how long a game server may take to answer what it has received.
	tickTime = 100 * time.Millisecond
	// chatTime is how long a session waits for a pause of a server that always says something.
	chatTime = 500 * time.Millisecond
	// closeTime is how long a server may take to acknowledge the goodbye, beside the round trip.
	closeTime = 250 * time.Millisecond
)

// departure is how far a session has left its server.
type departure struct {
	limit time.Time // when it leaves at the latest
	acked time.Time // when the server had acknowledged all it was sent
	heard time.Time // when it last said something reliable
}

// quiesce says goodbye to a server that is still there, once it has acknowledged and answered what it was sent. A game
// answers in its next tick, which is later than its library acknowledges.
func (r *Relay) quiesce(now time.Time, e *entry) {
	p := &e.Value
	l := &p.hold.departure
	stats := p.upstream.Conn.Stats()
	leaveAt := l.limit
	if stats.Queued == 0 {
		if l.acked.IsZero() {
			l.acked, l.limit = now, codec.Earliest(l.limit, now.Add(stats.RTT+chatTime))
		}
		leaveAt = l.acked
		if l.heard.After(leaveAt) {
			leaveAt = l.heard
		}
		leaveAt = codec.Earliest(leaveAt.Add(stats.RTT+tickTime), l.limit)
	}
	if now.Before(leaveAt) {
		p.hold.next = leaveAt
		return
	}
	p.upstream.Conn.Close(now, codec.Goodbye{Reason: codec.Closed})
	p.hold.phase, p.hold.next = closing, now.Add(stats.RTT+closeTime)
	r.settle(now, e)
}

// depart has a session that has left its server seek another. The client gets the old server's messages until another
// server has taken the session.
func (r *Relay) depart(now time.Time, e *entry) {
	p := &e.Value
	r.closing.add(now, e, r)
	p.socket = nil // the closing connection's
	r.leaveServer(now, p)
	r.waiting.seek(now, e)
}
