package relay

import (
	"bytes"
	"time"

	"tidegate/codec"
	"tidegate/internal/upstream"
	"tidegate/proxy/bridge"
	"tidegate/proxy/stats"
)

// asked handles a client's request to join.
func (r *Relay) asked(now time.Time, e *Entry, ev *codec.Event) {
	p := &e.Value
	p.hello.Data, p.hello.Pad = bytes.Clone(ev.Payload), ev.Pad
	p.identify(ev.Identity, &r.identities)
	switch {
	case p.life == asking:
		r.introduce(now, e)
	case !p.route.provesFirst(p.protocol):
		r.dial(now, e, nil)
	default:
		r.admit(now, e, 0)
	}
}

// identify sets a session's identity: the client's own, or a new one. A client with one also has a version.
func (p *session) identify(identity uint64, ids *identities) {
	if c, ok := p.client.Conn.(codec.Identity); ok {
		p.hello.Version = c.Version()
	}
	if p.hello.Identity == 0 {
		p.hello.Identity = identity
	}
	if p.hello.Identity == 0 {
		p.hello.Identity = ids.next()
	}
}

// admit admits the client, with the upstream's client ID or one of the Relay's.
func (r *Relay) admit(now time.Time, e *Entry, id uint16) {
	p := &e.Value
	if !p.route.keepsClientIDs(p.protocol) {
		var ok bool
		if id, ok = p.route.ids.take(); !ok {
			r.end(now, e, stats.ByProxy, codec.Goodbye{Reason: codec.ServerFull})
			return
		}
		p.origin = ownID
	} else {
		p.origin = serversID
	}
	p.id = id
	p.client.Conn.Admit(now, id)
}

// dial opens the upstream side. It returns false if the session first waits for held sessions. failed is the server
// that was asked before, or nil. If there is no server, dial tells the client. If there is no way to any server, the
// session asks again later.
func (r *Relay) dial(now time.Time, e *Entry, failed *upstream.Server) bool {
	p := &e.Value
	if p.life == opening {
		r.enter(now, e, dialing)
	}
	p.upstream = side{Sender: bridge.Sender{Keeps: p.route.Failover.Hold > 0}}
	p.server = p.route.pool.Pick(now, e.Key.Client.Addr(), failed)
	if p.server == nil && p.route.pool.AnyReserved() {
		r.waiting.await(now, e)
		return false
	}
	p.tries++
	server := p.server
	switch {
	case server == nil:
		r.end(now, e, stats.ByUpstream, codec.Goodbye{Reason: codec.NoConnection})
	case r.reach(now, e):
	case p.mayTry():
		p.route.pool.Failed(server, now, now, codec.TransportError.String())
		return r.dial(now, e, server)
	default:
		p.dialBy = now.Add(seekEvery)
	}
	return true
}

// mayTry reports whether the client has time for another server.
func (p *session) mayTry() bool { return int(p.tries) < p.route.mostTries() }

// reach opens the upstream side to the chosen server, and reports whether it could.
func (r *Relay) reach(now time.Time, e *Entry) bool {
	p := &e.Value
	p.path = r.paths.take(now, p.route.Upstream, p.server.Addr)
	socket, err := p.route.Upstream.dial(r.sockets.Sockets, p.path, p.server.Addr, e.Key.Client)
	if err != nil {
		r.drops.count(now, dropped{stats.DropSocket, p.listener, p.server.Addr, 0, err})
		p.hangUp()
		return false
	}
	socket.SetOwner(e)
	p.socket, p.searches = socket, p.route.Upstream.Transport.Probes
	p.preamble = p.route.Upstream.Headers.preamble(e.Key.Client, p.face.Addr())
	p.refused, p.askedAt = 0, now.Sub(r.born)
	// The server gets a share of the client's own timeout. So time is left to tell the client, or to ask the next
	// server.
	p.spare(r.stood)
	p.dialBy = now.Add(r.settings.HandshakeTimeout / time.Duration(1+p.route.mostTries()))
	hello := p.hello
	hello.From = socket
	// A client that has not answered yet must stay hidden from the game. A client that may wait for the game's first
	// messages joins at once. A held session that a server offers a wrong client ID must stay hidden from the game, too.
	hello.Tentative = !p.client.up && !p.protocol.Spec().ServerFirst || p.hold != nil && p.hold.ticket != nil
	hello.Patient = p.hold == nil
	hello.Held = p.route.Failover.Hold > 0
	if p.life == asking {
		p.upstream.Conn = p.route.speaks.(codec.Granter).DialAhead(now, p.server.Addr, hello)
	} else {
		p.upstream.Conn = p.route.speaks.Dial(now, p.server.Addr, hello)
	}
	return true
}

// retry dials another server after one did not answer, and reports whether it could.
func (r *Relay) retry(now time.Time, e *Entry, why codec.Reason) bool {
	p := &e.Value
	p.route.pool.Failed(p.server, now, r.born.Add(p.askedAt), why.String())
	if p.isEnding() || !p.client.Live() || !p.mayTry() {
		return false
	}
	failed := p.server
	r.samples.lastOfServer(p)
	p.hangUp()
	r.dial(now, e, failed)
	return true
}

// establish notes that a side has connected. The session is established once both sides are.
func (r *Relay) establish(now time.Time, e *Entry) {
	p := &e.Value
	if !p.client.up || !p.upstream.up || p.isEnding() {
		return
	}
	r.table.settleDown(e)
	r.counters.Established++
	if p.life.isJoining() {
		r.enter(now, e, joined)
	}
	p.heard = now
	r.journal.established(now, e)
}

// The Relay asks a server ahead where both protocols are a codec.Granter. The client waits until the server has
// granted or refused the connection. The data of the client's Hello follows after the grant.

// askFirst asks a server about a new client before the client is granted its connection.
func (r *Relay) askFirst(now time.Time, e *Entry) {
	p := &e.Value
	client := p.client.Conn.(codec.Deferrer)
	client.Defer()
	r.enter(now, e, asking)
	p.identify(client.Identity(), &r.identities)
	r.dial(now, e, nil)
}

// granted lets the client go on. A client that another server has granted before keeps that server's identity.
func (r *Relay) granted(now time.Time, e *Entry, server uint64) {
	if p := &e.Value; p.client.Live() {
		p.client.Conn.(codec.Deferrer).Grant(now, server)
		r.dirty.mark(e)
	}
}

// introduce sends the client's Hello to the server that was asked ahead.
func (r *Relay) introduce(now time.Time, e *Entry) {
	p := &e.Value
	r.enter(now, e, dialing)
	if p.upstream.Live() {
		p.upstream.Conn.(codec.Introducer).Introduce(now, p.hello)
		r.dirty.mark(e)
	}
}
