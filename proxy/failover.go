package proxy

import (
	"net/netip"
	"time"

	"tidegate/codec"
)

// Failover is what a route makes of an established session whose server is lost: it fell silent, its host refuses
// datagrams, or it said that it stops.
type Failover struct {
	// Hold is how long the client is kept, while another server is sought or the same one again. What the client sends
	// reliably waits, and is sent to the server that takes it; what a lost server has not acknowledged too, so that it
	// arrives at least once. With 0 the client is told goodbye at once, and may come again by itself.
	Hold time.Duration
	// Goodbyes counts a server's plain goodbye as its loss too. RakNet and RUDP have no other words for a server that
	// stops, and none for a player who is thrown out.
	Goodbyes bool
	// NewIDs lets a session go on under another Riptide client ID than the client was told. Else it ends there.
	NewIDs bool
}

// moveTime is how long a session that is moved by an operator looks for a server, where its route holds none.
const moveTime = 10 * time.Second

// quiesceTime is how long a server that is left may take to acknowledge what it was sent.
const quiesceTime = 2 * time.Second

// seekEvery is how often a held session looks for a server.
const seekEvery = 250 * time.Millisecond

// gap is what a session knows while it has no server, or is about to leave it.
type gap struct {
	since, until time.Time
	next         time.Time      // when something is to be done; zero while a server is being asked
	to           netip.AddrPort // the server the operator wants; zero: any
	leaving      bool           // the server is still there, and acknowledges what it was sent
}

// isLoss reports whether the end of an upstream connection means that its server is lost, rather than that it does not
// want the player.
func (f *Failover) isLoss(why codec.Reason) bool {
	switch why {
	case codec.NoConnection, codec.TimedOut, codec.TransportError, codec.PoorConnection, codec.ServerStopped:
		return true
	case codec.Closed:
		return f.Goodbyes
	}
	return false
}

// lose begins to hold a session whose server is lost, and reports whether it does.
func (r *Relay) lose(now time.Time, e *entry, why codec.Reason) bool {
	p := &e.Value
	if p.route.Failover.Hold == 0 || !p.established || p.ending || !p.client.live() || !p.route.Failover.isLoss(why) {
		return false
	}
	if why == codec.ServerStopped || why == codec.TransportError {
		p.route.pool.Failed(p.server, now, now, why.String())
	}
	r.counters.Held++
	r.journal.held(e, why)
	p.gap = &gap{since: now, until: now.Add(p.route.Failover.Hold)}
	r.leaveServer(now, p)
	r.seek(now, e)
	return true
}

// leaveServer forgets the connection to a server, and keeps what waits for the next one.
func (r *Relay) leaveServer(now time.Time, p *pair) {
	r.scatter(now, p)
	kept := &p.upstream.kept
	for _, receipt := range kept.receipts(func(k *keptMessage) bool { return k.care == careReport }) {
		r.counters.Lost++ // the lost server knows
		kept.forget(receipt)
	}
	p.expires, p.dialBy = p.gap.until, time.Time{}
	r.hangUp(p)
	r.toUpstreams.leave(&p.upstream)
	p.upstream = side{
		away: true, keeps: p.upstream.keeps,
		in: p.upstream.in, order: p.upstream.order, kept: p.upstream.kept, joint: p.upstream.joint,
	}
}

// seek asks a server to take a held session, or puts it off.
func (r *Relay) seek(now time.Time, e *entry) {
	p := &e.Value
	h := p.gap
	h.next = time.Time{}
	to := h.to
	h.to = netip.AddrPort{}
	p.server = nil
	if to.IsValid() {
		p.server = p.route.pool.Take(to)
	}
	if p.server == nil {
		p.server = p.route.pool.Pick(now, e.Key.Client.Addr(), nil)
	}
	if p.server == nil || !r.reach(now, e) {
		h.next = now.Add(seekEvery)
	}
	r.mark(e)
}

// heldDue does what is due of a held session.
func (r *Relay) heldDue(now time.Time, e *entry) {
	p := &e.Value
	switch {
	case p.gap == nil || p.gap.next.IsZero() || now.Before(p.gap.next):
	case p.gap.leaving:
		r.depart(now, e)
	default:
		r.seek(now, e)
	}
}

// unwelcome takes the end of a connection that was to take a held session.
func (r *Relay) unwelcome(now time.Time, e *entry, why codec.Goodbye) {
	p := &e.Value
	switch why.Reason {
	case codec.Rejected, codec.RejectedCustom, codec.Banned, codec.InvalidPassword, codec.Incompatible:
		r.end(now, e, blameUpstream, why) // another server, or waiting, will not change that
		return
	case codec.NoConnection, codec.TimedOut, codec.TransportError:
		p.route.pool.Failed(p.server, now, r.born.Add(p.askedAt), why.Reason.String())
	}
	r.leaveServer(now, p)
	p.gap.next = now.Add(seekEvery)
	r.mark(e)
}

// regain goes on with a held session at the server that has taken it, as the given client.
func (r *Relay) regain(now time.Time, e *entry, client uint16) {
	p := &e.Value
	if p.bridge.keepsClientID && p.protocol.IDs() == codec.WordIDs && client != p.id && !p.route.Failover.NewIDs {
		r.end(now, e, blameUpstream, codec.Goodbye{Reason: codec.ServerStopped})
		return
	}
	held := now.Sub(p.gap.since)
	p.gap, p.upstream.away = nil, false
	p.heard = now
	if renewer, ok := p.client.conn.(codec.Renewer); ok {
		renewer.Renew(now)
	}
	r.counters.Regained++
	r.journal.regained(e, held, client)
	for _, receipt := range p.upstream.kept.inOrder() {
		k := p.upstream.kept.of(receipt)
		if err := p.upstream.conn.Send(now, k.message); err != nil {
			r.unsent(now, e, &p.bridge.toUpstream, &k.message, codec.Reliable, err)
			return
		}
	}
}
