package relay

import (
	"time"

	"tidegate/codec"
	"tidegate/proxy/stats"
)

// seekEvery is how soon a held session looks for a server again after one has failed it.
const seekEvery = 250 * time.Millisecond

// deafTime is how long all other sessions must have heard nothing from a server whose session has timed out.
const deafTime = 3 * time.Second

// newsTime is how long it may take until all loops have read a server's last datagrams.
const newsTime = 100 * time.Millisecond

// mayHold reports whether a session is held when its server is lost.
func (p *session) mayHold() bool {
	return p.route.Failover.Hold > 0 && p.life.hasJoined() && !p.isEnding() && p.client.Live()
}

// lose begins to hold a session whose server is lost. It reports whether it does.
func (r *Relay) lose(now time.Time, e *Entry, why codec.Reason) bool {
	p := &e.Value
	if !p.mayHold() || !p.route.Failover.isLoss(why) {
		return false
	}
	r.counters.Held++
	r.journal.held(e, why)
	r.hold(now, e, seeking, hold{until: now.Add(p.route.Failover.Hold)})
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

// leaveServer forgets the connection to a server, and keeps the messages that wait for the next one.
func (r *Relay) leaveServer(now time.Time, p *session) {
	p.announceDepartures(now)
	p.expires, p.dialBy = p.hold.until, time.Time{}
	r.samples.lastOfServer(p)
	p.hangUp()
	r.carrier.Leave(&p.upstream.Sender)
	p.upstream = side{Sender: p.upstream.Sender}
}

// unwelcome handles the end of a connection that was opened for a held session.
func (r *Relay) unwelcome(now time.Time, e *Entry, why codec.Goodbye) {
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
func (r *Relay) misfit(now time.Time, e *Entry, offered uint16) {
	p := &e.Value
	wait := p.route.pool.OfferedID(p.hold.ticket, offered)
	p.upstream.Conn.Close(now, codec.Goodbye{Reason: codec.Closed})
	r.closing.add(now, e, r)
	r.leaveServer(now, p)
	if !wait {
		r.end(now, e, stats.ByUpstream, codec.Goodbye{Reason: codec.ServerStopped})
	}
}

// regain resumes a held session at the server that has taken it. client is the server's ID for the client.
func (r *Relay) regain(now time.Time, e *Entry, client uint16) {
	p := &e.Value
	if p.hold.ticket != nil && client != p.id {
		r.misfit(now, e, client)
		return
	}
	if c, ok := p.upstream.Conn.(codec.Confirmer); ok {
		c.Confirm(now)
	}
	held := now.Sub(p.hold.since)
	r.enter(now, e, joined)
	p.heard = now
	if resetter, ok := p.client.Conn.(codec.WorldResetter); ok {
		resetter.ResetWorld(now)
	}
	r.counters.Regained++
	r.journal.regained(e, held, client)
	r.carrier.Resume(now, &p.upstream.Sender, &p.bridge.ToServer)
	r.carried(now, e)
}

// announceDepartures tells a client that the other clients have left, since their server is lost.
func (p *session) announceDepartures(now time.Time) {
	for _, client := range p.knownClients {
		_ = p.client.Conn.Announce(now, codec.Left, client) // a protocol without such announcements needs none
	}
	p.knownClients = nil
}

// abandonSilent gives up a server that has been silent for its share of the time. A session that had no way to a
// server asks again.
func (r *Relay) abandonSilent(now time.Time, e *Entry) {
	p := &e.Value
	if p.dialBy.IsZero() || now.Before(p.dialBy) {
		return
	}
	p.dialBy = time.Time{}
	if p.needsServer() {
		r.dial(now, e, nil)
		r.dirty.mark(e)
		return
	}
	if p.upstream.Live() && !p.upstream.up && p.upstream.Conn.Stats().Received == 0 {
		r.abandonUpstream(now, e)
	}
}
