package relay

import (
	"time"

	"tidegate/codec"
	"tidegate/internal/filter"
	"tidegate/proxy/stats"
)

// settle handles the results of an input to a session, and marks the session for the next Flush.
func (r *Relay) settle(now time.Time, e *Entry) { r.settleSides(now, e, bothSides) }

// poll handles the events of the touched sides until none are left. It reports whether there were any. An event of one
// side may become an input of the other.
func (r *Relay) poll(now time.Time, e *Entry, touched sides) (found bool) {
	p := &e.Value
	for again := true; again; {
		again = false
		for touched.has(clientSide) {
			ev, ok := p.client.Conn.Poll()
			if !ok {
				break
			}
			r.clientEvent(now, e, &ev)
			found, touched = true, bothSides
		}
		for touched.has(serverSide) && p.upstream.Conn != nil {
			ev, ok := p.upstream.Conn.Poll()
			if !ok {
				break
			}
			r.upstreamEvent(now, e, &ev)
			found, again, touched = true, true, bothSides // the client's side may have new events now
		}
	}
	switch {
	case p.upstream.HasLost() && p.upstream.Live() && !p.upstream.Away:
		r.carrier.Purge(now, &p.upstream.Sender, &p.bridge.ToServer)
		r.carried(now, e)
	case p.life == moving:
		r.quiesce(now, e)
	}
	return found
}

func (r *Relay) clientEvent(now time.Time, e *Entry, ev *codec.Event) {
	p := &e.Value
	switch ev.Kind {
	case codec.Asked:
		r.asked(now, e, ev)
	case codec.Connected:
		p.client.up = true
		if p.route.provesFirst(p.protocol) {
			r.dial(now, e, nil)
		} else if c, ok := p.upstream.Conn.(codec.Confirmer); ok {
			c.Confirm(now)
		}
		r.establish(now, e)
	case codec.Received:
		r.received(now, e, filter.FromClient, &ev.Message)
	case codec.Delivered, codec.Lost:
		r.answered(now, e, &p.client, &p.bridge.ToClient, ev)
	case codec.Disconnected:
		p.client.Down = true
		r.presence.remove(p)
		r.end(now, e, stats.ByClient, codec.Goodbye{Reason: ev.Reason, Data: ev.Payload, Pad: ev.Pad})
	}
}

func (r *Relay) upstreamEvent(now time.Time, e *Entry, ev *codec.Event) {
	p := &e.Value
	if p.upstream.Down {
		return // the session has already given the server up for lost
	}
	switch ev.Kind {
	case codec.Granted:
		r.granted(now, e, ev.Identity)
	case codec.Connected:
		p.upstream.up, p.dialBy = true, time.Time{}
		p.forgetEarlier()
		r.samples.accepted(p)
		if p.route.pool.Answered(p.server, now) {
			r.journal.serverUp(p.route.Upstream.Name, p.server.Addr)
		}
		if p.life.isHeld() {
			r.regain(now, e, ev.Client)
			return
		}
		if !p.route.provesFirst(p.protocol) && p.client.Live() && !p.isEnding() {
			r.admit(now, e, ev.Client)
		}
		r.establish(now, e)
	case codec.Received:
		r.received(now, e, filter.FromUpstream, &ev.Message)
	case codec.Delivered, codec.Lost:
		r.answered(now, e, &p.upstream, &p.bridge.ToServer, ev)
	case codec.Joined, codec.Left:
		if p.upstream.Keeps {
			p.knownClients.note(ev.Kind, ev.Client)
		}
		if p.client.Live() {
			// A protocol without such announcements returns an error, which is no fault.
			_ = p.client.Conn.Announce(now, ev.Kind, ev.Client)
		}
	case codec.Disconnected:
		p.upstream.Down = true
		r.upstreamGone(now, e, codec.Goodbye{
			Reason: ev.Reason, Data: ev.Payload, Pad: ev.Pad, Identity: ev.Identity, Version: ev.Version,
		})
	}
}

// abandonClient ends the client's side at once. It does not wait until the connection notices.
func (r *Relay) abandonClient(now time.Time, e *Entry) {
	p := &e.Value
	if !p.client.Live() {
		return
	}
	p.client.Down = true
	r.presence.remove(p)
	r.end(now, e, stats.ByClient, codec.Goodbye{Reason: codec.TransportError})
	r.settle(now, e)
}

// abandonUpstream ends the upstream side at once. It does not wait until the connection notices.
func (r *Relay) abandonUpstream(now time.Time, e *Entry) {
	e.Value.upstream.Down = true
	r.upstreamGone(now, e, codec.Goodbye{Reason: codec.TransportError})
	r.settle(now, e)
}

// upstreamGone finds another server for the client, or tells the client why there is none.
func (r *Relay) upstreamGone(now time.Time, e *Entry, why codec.Goodbye) {
	p := &e.Value
	r.samples.refused(p, why.Reason)
	switch {
	case !p.life.isHeld():
	case p.life != seeking:
		p.blameServer(now, why.Reason)
		r.depart(now, e)
		return
	default:
		r.unwelcome(now, e, why)
		return
	}
	unreachable := why.Reason == codec.NoConnection || why.Reason == codec.TimedOut || why.Reason == codec.TransportError
	if !p.upstream.up && unreachable && r.retry(now, e, why.Reason) {
		return
	}
	if p.life.hasJoined() && p.route.Failover.isLoss(why.Reason) {
		p.route.pool.Doubt(p.server, now)
	}
	if !r.lose(now, e, why.Reason) {
		r.end(now, e, stats.ByUpstream, why)
	}
}
