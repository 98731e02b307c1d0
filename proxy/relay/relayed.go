package relay

import (
	"net/netip"
	"time"

	"tidegate/codec"
	"tidegate/internal/netio"
	"tidegate/internal/upstream"
	"tidegate/proxy/relay/admission"
	"tidegate/proxy/stats"
)

// openRelayed handles the first datagram from an address at a listener whose route is in ModeRelay.
func (r *Relay) openRelayed(now time.Time, l *listener, entry *protocolEntry, s netio.Socket, from netip.AddrPort,
	datagram []byte) {
	full := r.table.room(now, from, false)
	if r.mustWait(now, l, from, len(datagram), full) ||
		!r.mayAsk(now, l, from, len(datagram), false) {
		return
	}
	if full != nil || r.draining || l.retired {
		r.turnAway(now, l, entry, s, from, datagram, full)
		return
	}
	e, err := r.add(now, l, entry, s, from, nil)
	if err != nil {
		_, why := l.whyFull(false, err) // another loop may have taken the last place of the address
		r.drops.add(now, dropped{why, l, from, len(datagram), err})
		return
	}
	if !r.dialRelayed(now, e, nil) {
		r.endRelayed(now, e, stats.ByUpstream, codec.NoConnection)
		return
	}
	r.table.Schedule(e, now, e.Value.expiry(r.settings))
	r.passUp(now, e, datagram)
}

// turnAway refuses a new client, where its protocol has a refusal.
func (r *Relay) turnAway(now time.Time, l *listener, entry *protocolEntry, s netio.Socket, from netip.AddrPort,
	datagram []byte, full error) {
	if refused, _ := r.refuse(now, l, entry, s, from, datagram, full); !refused {
		_, why := l.whyFull(r.draining, full)
		r.drops.add(now, dropped{why, l, from, len(datagram), full})
	}
}

// dialRelayed opens a socket to a server, and reports whether it could. failed is the server tried before, or nil.
func (r *Relay) dialRelayed(now time.Time, e *Entry, failed *upstream.Server) bool {
	s := &e.Value
	s.tries++
	if s.server = s.route.pool.Pick(now, e.Key.Client.Addr(), failed); s.server == nil {
		return false
	}
	s.path = r.paths.take(now, s.route.Upstream, s.server.Addr)
	socket, err := s.route.Upstream.dial(r.sockets.Sockets, s.path, s.server.Addr, e.Key.Client)
	if err != nil {
		r.drops.add(now, dropped{stats.DropSocket, s.listener, s.server.Addr, 0, err})
		return false
	}
	socket.SetOwner(e)
	s.socket, s.refused, s.gate = socket, 0, 0
	s.preamble = newPreamble(s.route.Upstream.Headers, e.Key.Client, s.face.Addr())
	return true
}

// passUp forwards a client's datagram to its server.
func (r *Relay) passUp(now time.Time, e *Entry, datagram []byte) {
	s := &e.Value
	if err := s.judgeOpening(now, datagram); err != nil {
		r.drops.add(now, dropped{stats.DropOf(err), s.listener, e.Key.Client, len(datagram), err})
		return
	}
	s.heard, s.via, s.copied = s.since(now), s.listener.via(s.via), 0
	r.drops.has(stats.FateTaken)
	if s.answered && s.life == opening {
		r.establishRelayed(now, e)
	}
	s.fromClient.Count(datagram)
	r.counters.RelayedUp.Count(datagram)
	r.follow(e)
	r.sockets.forwardUp(now, e, datagram)
	r.offload.offer(now, e)
}

// passDown forwards a server's datagram to its client.
func (r *Relay) passDown(now time.Time, e *Entry, datagram []byte) {
	s := &e.Value
	s.refused, s.copied = 0, 0
	datagram = s.preamble.heard(datagram)
	s.path.hear(now, datagram, false)
	if len(datagram) == 0 {
		r.drops.add(now, dropped{stats.DropEmpty, s.listener, s.server.Addr, 0, nil})
		return
	}
	s.noteOpening(now, datagram)
	s.server.Heard(now)
	if !s.answered {
		s.answered = true
		r.table.Offer(e)
		r.samples.accepted(s)
		if s.route.pool.Answered(s.server, now) {
			r.journal.serverUp(s.route.Upstream.Name, s.server.Addr)
		}
	}
	if s.life == opening && s.edge == nil && !r.sockets.affords(now, e, len(datagram)) {
		r.drops.add(now, dropped{stats.DropUnproved, s.listener, e.Key.Client, len(datagram), nil})
		return
	}
	r.drops.has(stats.FateTaken)
	s.fromServer.Count(datagram)
	r.counters.RelayedDown.Count(datagram)
	r.offload.offer(now, e)
	client := e.Key.Client
	if s.edge != nil {
		client = s.edge.sources.To(datagram)
	}
	if s.hasMoved(now) {
		r.sockets.seek(s, client, datagram)
	}
	face := s.faceTo(client)
	if far, ok := face.(*farFace); ok {
		r.sockets.answerFar(far, s.listener, client, datagram)
		return
	}
	if !s.via.simple() {
		r.sockets.Forward(face, s.via.to(client), datagram)
		return
	}
	r.sockets.sendHeaded(now, e, face, s.via.to(client), s.via.begin(r.sockets.Buffer()), datagram)
}

// affords reports whether n more bytes may go to a client that may be forged. Beyond amplification times the client's
// own bytes, the allowance of clients without proof must have them.
func (o *outlet) affords(now time.Time, e *Entry, n int) bool {
	s, client := &e.Value, e.Key.Client
	sent := onWire(&s.fromServer, client) + uint64(admission.WireSize(client, n))
	if sent <= admission.Amplification*onWire(&s.fromClient, client) {
		return true
	}
	if s.surplus == nil {
		s.surplus = &admission.Trust{Unbound: o.unproved.Trusts(client.Addr())}
	}
	return s.surplus.Spend(client, n) || o.allowance.Spend(now, o.unproved, s.surplus, client, n)
}

func (r *Relay) establishRelayed(now time.Time, e *Entry) {
	s := &e.Value
	r.enter(now, e, joined)
	s.surplus = nil
	s.route.Upstream.Transport.probed(s.socket) // the client has finished its own search
	r.table.Establish(e)
	r.known.add(s.listener, e.Key.Client)
	r.counters.Established++
	r.table.Schedule(e, now, s.expiry(r.settings))
	r.journal.established(now, e)
}

// onWire returns the size of a client's counted datagrams, with their IP and UDP headers.
func onWire(t *stats.Traffic, client netip.AddrPort) uint64 {
	return t.Bytes + t.Messages*uint64(admission.WireSize(client, 0))
}

// refusedRelayed handles the news that a session's server cannot be reached. While the server has not answered, the
// Relay tries another: the client repeats its first datagram. Later, the session ends if the Relay believes the news.
// Then the client's next first datagram finds a live server. A NetherNet client can play on no other server than the
// one that has answered its join, and that one's port may not be open yet.
func (r *Relay) refusedRelayed(now time.Time, e *Entry, err error) {
	s := &e.Value
	r.offload.review(now, e)
	s.path.refuse()
	believed := s.believes(now.Sub(r.born), err)
	switch {
	case !believed && s.answered || s.edge != nil && !s.answered:
		return
	case believed:
		s.route.pool.Doubt(s.server, now, codec.NoConnection.String())
	case !s.answered:
		failed := s.server
		r.samples.refused(s, codec.NoConnection)
		s.route.pool.Failed(failed, now, now, upstream.Refused)
		most := s.route.mostTries()
		if most == 1 {
			return // the client goes on asking the only server
		}
		if int(s.tries) < most {
			s.hangUp()
			if r.dialRelayed(now, e, failed) {
				return
			}
		}
	}
	r.endRelayed(now, e, stats.ByUpstream, codec.NoConnection)
}

// expireRelayed ends a session whose time is over, or schedules the next look at it.
func (r *Relay) expireRelayed(now time.Time, e *Entry) {
	r.offload.review(now, e)
	if at := e.Value.expiry(r.settings); now.Before(at) {
		r.table.Schedule(e, now, at)
		return
	}
	r.endRelayed(now, e, stats.ByProxy, codec.TimedOut)
}
