package relay

import (
	"time"

	"tidegate/codec"
	"tidegate/internal/policy"
	"tidegate/proxy/stats"
)

// settle handles the results of an input to a session, and marks the session for the next Flush.
func (r *Relay) settle(now time.Time, e *Entry) { r.settleSides(now, e, bothSides) }

// poll handles the events of the touched sides until none are left. It reports whether there were any. An event of one
// side may become an input of the other.
func (r *Relay) poll(now time.Time, e *Entry, touched sides) (found bool) {
	s := &e.Value
	for again := true; again; {
		again = false
		for touched.has(clientSide) {
			ev, ok := s.client.Conn.Poll()
			if !ok {
				break
			}
			r.clientEvent(now, e, &ev)
			found, touched = true, bothSides
		}
		for touched.has(serverSide) && s.upstream.Conn != nil {
			ev, ok := s.upstream.Conn.Poll()
			if !ok {
				break
			}
			r.upstreamEvent(now, e, &ev)
			found, again, touched = true, true, bothSides // the client's side may have new events now
		}
	}
	switch {
	case s.upstream.HasLost() && s.upstream.Live() && !s.upstream.Away:
		r.carrier.Purge(now, &s.upstream.Sender, &s.bridge.ToServer)
		r.carried(now, e)
	case s.life == moving:
		r.quiesce(now, e)
	}
	return found
}

func (r *Relay) clientEvent(now time.Time, e *Entry, ev *codec.Event) {
	s := &e.Value
	switch ev.Kind {
	case codec.Asked:
		r.asked(now, e, ev)
	case codec.Connected:
		s.client.up = true
		if s.route.provesFirst(s.protocol) {
			r.dial(now, e, nil)
		} else if c, ok := s.upstream.Conn.(codec.Confirmer); ok {
			c.Confirm(now)
		}
		r.establish(now, e)
	case codec.Received:
		r.received(now, e, policy.FromClient, &ev.Message)
	case codec.Delivered, codec.Lost:
		r.answered(now, e, &s.client, &s.bridge.ToClient, ev)
	case codec.Disconnected:
		s.client.Down = true
		r.presence.remove(s)
		r.drops.countGiant(now, e, ev.Reason)
		s.doubtServer(now)
		r.end(now, e, stats.ByClient, codec.Goodbye{Reason: ev.Reason, Data: ev.Payload, Pad: ev.Pad})
	}
}

func (r *Relay) upstreamEvent(now time.Time, e *Entry, ev *codec.Event) {
	s := &e.Value
	if s.upstream.Down {
		return // the session has already given the server up for lost
	}
	switch ev.Kind {
	case codec.Granted:
		r.granted(now, e, ev.Identity)
	case codec.Connected:
		s.upstream.up, s.dialBy = true, time.Time{}
		delete(r.journal.causes, s.serial) // another server's
		s.forgetEarlier()
		r.samples.accepted(s)
		r.notePace(now, s)
		if s.route.pool.Answered(s.server, now) {
			r.journal.serverUp(s.route.Upstream.Name, s.server.Addr)
		}
		if s.life.isHeld() {
			r.regain(now, e, ev.Client)
			return
		}
		if !s.route.provesFirst(s.protocol) && s.client.Live() && !s.life.isEnding() {
			r.admit(now, e, ev.Client)
		}
		r.establish(now, e)
	case codec.Received:
		r.received(now, e, policy.FromUpstream, &ev.Message)
	case codec.Delivered, codec.Lost:
		r.answered(now, e, &s.upstream, &s.bridge.ToServer, ev)
	case codec.Joined, codec.Left:
		if s.upstream.Keeps {
			s.knownClients.note(ev.Kind, ev.Client)
		}
		if s.client.Live() {
			_ = s.client.Conn.Announce(now, ev.Kind, ev.Client) // ErrMode is no fault
		}
	case codec.Disconnected:
		s.upstream.Down = true
		r.drops.countGiant(now, e, ev.Reason)
		r.upstreamGone(now, e, codec.Goodbye{
			Reason: ev.Reason, Data: ev.Payload, Pad: ev.Pad, Identity: ev.Identity, Version: ev.Version,
		})
	}
}

// abandonClient ends the client's side at once. It does not wait until the connection notices.
func (r *Relay) abandonClient(now time.Time, e *Entry) {
	s := &e.Value
	if !s.client.Live() {
		return
	}
	s.client.Down = true
	r.presence.remove(s)
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
	s := &e.Value
	r.turnedAway(now, s, why.Reason)
	switch {
	case !s.life.isHeld():
	case s.life != seeking:
		s.blameServer(now, why.Reason)
		r.depart(now, e)
		return
	default:
		r.unwelcome(now, e, why)
		return
	}
	unreachable := why.Reason == codec.NoConnection || why.Reason == codec.TimedOut || why.Reason == codec.TransportError
	if !s.upstream.up && unreachable && r.retry(now, e, why.Reason) {
		return
	}
	if s.life.hasJoined() && s.route.Failover.isLoss(why.Reason) {
		s.route.pool.Doubt(s.server, now, why.Reason.String())
	}
	if !r.lose(now, e, why.Reason) {
		r.end(now, e, stats.ByUpstream, why)
	}
}

// settleSides is settle for an input to some sides of a session.
func (r *Relay) settleSides(now time.Time, e *Entry, touched sides) {
	if !e.Value.isSteady() {
		touched = bothSides
	}
	if r.poll(now, e, touched) || !e.Value.isSteady() {
		touched = bothSides
	}
	r.dirty.markSides(e, touched)
}
