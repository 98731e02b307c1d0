package proxy

import (
	"net/netip"
	"time"

	"tidegate/codec"
	"tidegate/internal/upstream"
	"tidegate/proxy/stats"
)

// Failover is how a route handles an established session whose server is lost. A server is lost when it falls silent,
// its host refuses datagrams, or it says that it stops.
type Failover struct {
	// Hold is how long the client is kept while the Relay looks for another server, or for the same one again. Reliable
	// messages of the client wait for the server that takes the session. It also gets the messages that the lost server
	// has not acknowledged. So each message arrives at least once. With 0, the client gets a goodbye at once and may
	// connect again.
	Hold time.Duration
	// Goodbyes makes a server's plain goodbye count as its loss. RakNet and RUDP have no other goodbye for a server that
	// stops, and none for a client that is kicked.
	Goodbyes bool
	// NewIDs lets a session go on with another Riptide client ID than the client knows. Without it the session ends.
	NewIDs bool
}

// moveTime is how long a session moved by an operator looks for a server, if its route holds no sessions.
const moveTime = 10 * time.Second

// seekEvery is how soon a held session looks for a server again after one has failed it.
const seekEvery = 250 * time.Millisecond

// deafTime is how long all other sessions must have heard nothing from a server whose session has timed out.
const deafTime = 3 * time.Second

// newsTime is how long it may take until all loops have read a server's last datagrams.
const newsTime = 100 * time.Millisecond

// hold is a session's state while it has no server, or is about to leave it.
type hold struct {
	since, until time.Time
	phase        phase
	next         time.Time        // when the session is due; zero: after the next event
	to           netip.AddrPort   // the operator's choice of a server; zero: any
	ticket       *upstream.Ticket // its place in the line of its server; nil: any client ID will do
	departure    departure
}

// phase is a session's progress from one server to the next.
type phase uint8

const (
	seeking   phase = iota // the session waits for a server, or asks one
	quiescing              // moved: the old server acknowledges and answers its messages
	closing                // moved: the old server gets a goodbye
)

// isLoss reports whether the end of an upstream connection means a lost server, and not a server that rejects the
// client.
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

// lose begins to hold a session whose server is lost. It reports whether it does.
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
	case codec.PoorConnection: // the server or this session's path is at fault
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

// endHold ends the search for a server: the session has one, or has ended.
func (w *waiting) endHold(p *session) {
	if p.hold != nil && p.hold.ticket != nil {
		p.route.pool.Dequeue(p.hold.ticket)
		w.inLine--
	}
	p.hold, p.upstream.Away = nil, false
}

// leaveServer forgets the connection to a server, and keeps the messages that wait for the next one.
func (r *Relay) leaveServer(now time.Time, p *session) {
	p.announceDepartures(now)
	p.expires, p.dialBy = p.hold.until, time.Time{}
	p.hangUp()
	sampleLast(&r.samples.toUpstreams, &p.upstream)
	r.carrier.Leave(&p.upstream.Sender)
	p.upstream = side{Sender: p.upstream.Sender}
}

// holdDue runs due work of a held session.
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

// unwelcome handles the end of a connection that was opened for a held session.
func (r *Relay) unwelcome(now time.Time, e *entry, why codec.Goodbye) {
	p := &e.Value
	blamed := false
	switch why.Reason {
	case codec.Rejected, codec.RejectedCustom, codec.Banned, codec.InvalidPassword, codec.Incompatible:
		r.end(now, e, stats.ByUpstream, why) // another server or a later attempt would not change that
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
	p.socket = nil // it belongs to the closing connection now
	r.leaveServer(now, p)
	if !wait {
		r.end(now, e, stats.ByUpstream, codec.Goodbye{Reason: codec.ServerStopped})
	}
}

// regain resumes a held session at the server that has taken it. client is the server's ID for the client.
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
