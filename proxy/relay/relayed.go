package relay

import (
	"net/netip"
	"time"

	"tidegate/codec"
	"tidegate/internal/netio"
	"tidegate/internal/upstream"
	"tidegate/proxy/stats"
)

// openRelayed handles the first datagram from an address at a listener whose route is in ModeRelay.
func (r *Relay) openRelayed(now time.Time, d *listener, w *protocolEntry, s netio.Socket, from netip.AddrPort,
	datagram []byte) {
	full := r.table.room(now, from, false)
	if r.guard.mustWait(now, r.draining, d, from, len(datagram), full) ||
		!r.guard.mayAsk(now, d, from, len(datagram), false) {
		return
	}
	if full != nil || r.draining || d.retired {
		r.turnAway(now, d, w, s, from, datagram, full)
		return
	}
	e, err := r.add(now, d, w, s, from, nil)
	if err != nil {
		_, why := d.whyFull(false, err) // another loop may have taken the last place of the address
		r.drops.add(now, dropped{why, d, from, len(datagram), err})
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
func (r *Relay) turnAway(now time.Time, d *listener, w *protocolEntry, s netio.Socket, from netip.AddrPort,
	datagram []byte, full error) {
	if refused, _ := r.refuse(now, d, w, s, from, datagram, full); !refused {
		_, why := d.whyFull(r.draining, full)
		r.drops.add(now, dropped{why, d, from, len(datagram), full})
	}
}

// dialRelayed opens a socket to a server, and reports whether it could. failed is the server tried before, or nil.
func (r *Relay) dialRelayed(now time.Time, e *Entry, failed *upstream.Server) bool {
	p := &e.Value
	p.tries++
	if p.server = p.route.pool.Pick(now, e.Key.Client.Addr(), failed); p.server == nil {
		return false
	}
	p.path = r.paths.take(now, p.route.Upstream, p.server.Addr)
	socket, err := p.route.Upstream.dial(r.sockets.Sockets, p.path, p.server.Addr, e.Key.Client)
	if err != nil {
		r.drops.add(now, dropped{stats.DropSocket, p.listener, p.server.Addr, 0, err})
		return false
	}
	socket.SetOwner(e)
	p.socket, p.refused, p.gate = socket, 0, 0
	p.preamble = p.route.Upstream.Headers.preamble(e.Key.Client, p.face.Addr())
	return true
}

// passUp forwards a client's datagram to its server.
func (r *Relay) passUp(now time.Time, e *Entry, datagram []byte) {
	p := &e.Value
	if err := p.judgeOpening(datagram); err != nil {
		r.drops.add(now, dropped{stats.DropOf(err), p.listener, e.Key.Client, len(datagram), err})
		return
	}
	p.heard, p.via, p.copied = now, p.listener.via(p.via), 0
	r.drops.has(stats.FateTaken)
	if p.answered && p.life == opening {
		r.establishRelayed(now, e)
	}
	p.fromClient.Count(datagram)
	r.counters.RelayedUp.Count(datagram)
	r.follow(e)
	r.sockets.forwardUp(now, e, datagram)
	r.offload.offer(now, e)
}

// passDown forwards a server's datagram to its client.
func (r *Relay) passDown(now time.Time, e *Entry, datagram []byte) {
	p := &e.Value
	p.refused, p.copied = 0, 0
	datagram = p.preamble.heard(datagram)
	if len(datagram) == 0 {
		r.drops.add(now, dropped{stats.DropEmpty, p.listener, p.server.Addr, 0, nil})
		return
	}
	p.noteOpening(datagram)
	p.server.Heard(now)
	if !p.answered {
		p.answered = true
		r.table.Offer(e)
		r.samples.accepted(p)
		if p.route.pool.Answered(p.server, now) {
			r.journal.serverUp(p.route.Upstream.Name, p.server.Addr)
		}
	}
	if p.life == opening && !r.sockets.affords(now, e, len(datagram)) {
		r.drops.add(now, dropped{stats.DropUnproved, p.listener, e.Key.Client, len(datagram), nil})
		return
	}
	r.drops.has(stats.FateTaken)
	p.fromServer.Count(datagram)
	r.counters.RelayedDown.Count(datagram)
	r.offload.offer(now, e)
	if p.hasMoved(now) {
		r.sockets.seek(p, e.Key.Client, datagram)
	}
	if far, ok := p.face.(*farFace); ok {
		r.sockets.answerFar(far, p.listener, e.Key.Client, datagram)
		return
	}
	if !p.via.simple() {
		r.sockets.Forward(p.face, p.via.to(e.Key.Client), datagram)
		return
	}
	r.sockets.sendHeaded(now, e, p.face, p.via.to(e.Key.Client), p.via.begin(r.sockets.Buffer()), datagram)
}

// affords reports whether n more bytes may go to a client that may be forged. Beyond amplification times the client's
// own bytes, the allowance of clients without proof must have them.
func (o *outlet) affords(now time.Time, e *Entry, n int) bool {
	p, client := &e.Value, e.Key.Client
	sent := onWire(&p.fromServer, client) + uint64(wireSize(client, n))
	if sent <= amplification*onWire(&p.fromClient, client) {
		return true
	}
	if p.surplus == nil {
		p.surplus = &trust{unbound: o.unproved.trusts(client.Addr())}
	}
	return p.surplus.spend(client, n) || o.allowance.spend(now, o.unproved, p.surplus, client, n)
}

// listens reports whether a client that has spoken once seems to be told a game, and not only answered.
func (p *session) listens() bool { return p.fromServer.Messages >= 32 }

func (r *Relay) establishRelayed(now time.Time, e *Entry) {
	p := &e.Value
	r.enter(now, e, joined)
	p.surplus = nil
	p.route.Upstream.Transport.probed(p.socket) // the client has finished its own search
	r.table.Establish(e)
	r.known.add(p.listener, e.Key.Client)
	r.counters.Established++
	r.table.Schedule(e, now, p.expiry(r.settings))
	r.journal.established(now, e)
}

// onWire returns the size of a client's counted datagrams, with their IP and UDP headers.
func onWire(t *stats.Traffic, client netip.AddrPort) uint64 {
	return t.Bytes + t.Messages*uint64(wireSize(client, 0))
}

// refusedRelayed handles the news that a session's server cannot be reached. While the server has not answered, the
// Relay tries another: the client repeats its first datagram. Later, the session ends if the Relay believes the news.
// Then the client's next first datagram finds a live server.
func (r *Relay) refusedRelayed(now time.Time, e *Entry, err error) {
	p := &e.Value
	r.offload.review(now, e)
	believed := p.believes(now.Sub(r.born), err)
	switch {
	case p.answered && !believed:
		return
	case believed:
		p.route.pool.Doubt(p.server, now)
	case !p.answered:
		failed := p.server
		r.samples.refused(p, codec.NoConnection)
		p.route.pool.Failed(failed, now, now, codec.NoConnection.String())
		most := p.route.mostTries()
		if most == 1 {
			return // the client goes on asking the only server
		}
		if int(p.tries) < most {
			p.hangUp()
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
	if p := &e.Value; !p.answered && p.server != nil {
		p.route.pool.Doubt(p.server, now)
	}
	r.endRelayed(now, e, stats.ByProxy, codec.TimedOut)
}
