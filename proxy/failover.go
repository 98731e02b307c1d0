package proxy

import (
	"net/netip"
	"time"

	"tidegate/codec"
	"tidegate/internal/upstream"
	"tidegate/proxy/stats"
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

// seekEvery is how soon a held session looks for a server again after one has failed it.
const seekEvery = 250 * time.Millisecond

// deafTime is how long all other sessions must have heard nothing of a server whose session has timed out.
const deafTime = 3 * time.Second

// newsTime is how long a server's last datagrams may take until all loops have read them.
const newsTime = 100 * time.Millisecond

// hold is what a session knows while it has no server, or is about to leave it.
type hold struct {
	since, until time.Time
	phase        phase
	next         time.Time        // when the session wants to be looked at; zero: after the next event
	to           netip.AddrPort   // the server that the operator wants; zero: any
	ticket       *upstream.Ticket // its place in the line of its server; nil: any client ID will do
	departure    departure
}

// phase is how far a session is on its way from one server to the next.
type phase uint8

const (
	seeking   phase = iota // it waits for a server, or asks one
	quiescing              // moved: the old server acknowledges what it was sent, and answers it
	closing                // moved: the old server is told goodbye
)

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

// keepsID reports whether the session must keep the client ID that its server gave it.
func (p *session) keepsID() bool {
	return p.route.keepsClientIDs(p.protocol) && p.protocol.Spec().IDs == codec.IDBeside && !p.route.Failover.NewIDs
}

// mayHold reports whether a session is held when its server is lost.
func (p *session) mayHold() bool {
	return p.route.Failover.Hold > 0 && p.established && !p.ending && p.client.Live()
}

// lose begins to hold a session whose server is lost, and reports whether it does.
func (r *Relay) lose(now time.Time, e *entry, why codec.Reason) bool {
	p := &e.Value
	if !p.mayHold() || !p.route.Failover.isLoss(why) {
		return false
	}
	r.counters.Held++
	r.journal.held(e, why)
	p.hold = &hold{since: now, until: now.Add(p.route.Failover.Hold)}
	r.waiting.queue(e)
	p.blameServer(now, why)
	r.leaveServer(now, p)
	r.waiting.seek(now, e)
	return true
}

// blameServer tells the other sessions of a server that one session has lost it.
func (p *session) blameServer(now time.Time, why codec.Reason) {
	pool := p.route.pool
	switch why {
	case codec.ServerStopped, codec.TransportError:
		pool.Failed(p.server, now, now, why.String())
		pool.Suspect(p.server, now, now.Add(newsTime))
	case codec.PoorConnection: // the server, or this session's path
		pool.Suspect(p.server, now, now.Add(newsTime))
	case codec.NoConnection, codec.TimedOut:
		pool.Failed(p.server, now, now.Add(-deafTime), why.String())
		pool.Suspect(p.server, now, now.Add(-deafTime))
	}
}

// queue gives a session that must keep its client ID a place in the line of its server.
func (w *waiting) queue(e *entry) {
	p := &e.Value
	if !p.keepsID() {
		return
	}
	p.hold.ticket = &upstream.Ticket{
		Client: p.id, Addr: e.Key.Client.Addr(), To: p.hold.to, Shard: w.shard.index, Owner: e,
	}
	p.route.pool.Enqueue(p.hold.ticket, p.server)
	w.inLine++
}

// endHold ends the search for a server: the session has one, or is over.
func (w *waiting) endHold(p *session) {
	if p.hold != nil && p.hold.ticket != nil {
		p.route.pool.Dequeue(p.hold.ticket)
		w.inLine--
	}
	p.hold, p.upstream.Away = nil, false
}

// leaveServer forgets the connection to a server, and keeps what waits for the next one.
func (r *Relay) leaveServer(now time.Time, p *session) {
	p.announceDepartures(now)
	p.expires, p.dialBy = p.hold.until, time.Time{}
	p.hangUp()
	sampleLast(&r.samples.toUpstreams, &p.upstream)
	r.carrier.Leave(&p.upstream.Sender)
	p.upstream = side{Sender: p.upstream.Sender}
}

// holdDue does what is due of a held session.
func (r *Relay) holdDue(now time.Time, e *entry) {
	p := &e.Value
	h := p.hold
	if h == nil || h.next.IsZero() || now.Before(h.next) {
		return
	}
	h.next = time.Time{}
	switch {
	case h.phase == quiescing:
		r.quiesce(now, e)
	case h.phase == closing:
		r.depart(now, e)
	case p.server == nil:
		r.waiting.seek(now, e)
	case h.ticket == nil || !p.upstream.Live():
	case p.upstream.Conn.Stats().Received > 0:
		p.route.pool.Yield(h.ticket)
	default:
		h.next = now.Add(turnTime)
	}
}

// unwelcome takes the end of a connection that was to take a held session.
func (r *Relay) unwelcome(now time.Time, e *entry, why codec.Goodbye) {
	p := &e.Value
	blamed := false
	switch why.Reason {
	case codec.Rejected, codec.RejectedCustom, codec.Banned, codec.InvalidPassword, codec.Incompatible:
		r.end(now, e, stats.ByUpstream, why) // another server, or waiting, will not change that
		return
	case codec.NoConnection, codec.TimedOut, codec.TransportError:
		blamed = p.route.pool.Failed(p.server, now, r.born.Add(p.askedAt), why.Reason.String())
	}
	r.leaveServer(now, p)
	if t := p.hold.ticket; t != nil {
		p.route.pool.Retry(t, now, !blamed)
		r.waiting.attendBy(now.Add(attendEvery))
	} else {
		p.hold.next = now.Add(seekEvery)
	}
	r.dirty.mark(e)
}

// misfit leaves a server that offers a session another client ID than its own.
func (r *Relay) misfit(now time.Time, e *entry, offered uint16) {
	p := &e.Value
	wait := p.route.pool.OfferedID(p.hold.ticket, offered)
	p.upstream.Conn.Close(now, codec.Goodbye{Reason: codec.Closed})
	r.closing.add(now, e, r)
	p.socket = nil // the closing connection's
	r.leaveServer(now, p)
	if !wait {
		r.end(now, e, stats.ByUpstream, codec.Goodbye{Reason: codec.ServerStopped})
	}
}

// regain goes on with a held session at the server that has taken it, as the given client.
func (r *Relay) regain(now time.Time, e *entry, client uint16) {
	p := &e.Value
	if p.hold.ticket != nil && client != p.id {
		r.misfit(now, e, client)
		return
	}
	if c, ok := p.upstream.Conn.(codec.Confirmer); ok {
		c.Confirm(now)
	}
	held := now.Sub(p.hold.since)
	r.waiting.endHold(p)
	p.heard = now
	if resetter, ok := p.client.Conn.(codec.WorldResetter); ok {
		resetter.ResetWorld(now)
	}
	r.counters.Regained++
	r.journal.regained(e, held, client)
	r.carrier.Resume(now, &p.upstream.Sender, &p.bridge.ToServer)
	r.carried(now, e)
}
