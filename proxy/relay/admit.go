package relay

import (
	"bytes"
	"net/netip"
	"time"

	"tidegate/codec"
	"tidegate/internal/upstream"
	"tidegate/proxy/bridge"
	"tidegate/proxy/stats"
)

// asked handles a client's request to join.
func (r *Relay) asked(now time.Time, e *Entry, ev *codec.Event) {
	s := &e.Value
	s.hello.Data, s.hello.Pad = bytes.Clone(ev.Payload), ev.Pad
	s.identify(ev.Identity, &r.identities)
	switch {
	case s.life == asking:
		r.introduce(now, e)
	case !s.route.provesFirst(s.protocol):
		r.dial(now, e, nil)
	default:
		r.admit(now, e, 0)
	}
}

// identify sets a session's identity: the client's own, or a new one. A client with one also has a version.
func (s *link) identify(identity uint64, ids *identities) {
	if c, ok := s.client.Conn.(codec.Identity); ok {
		s.hello.Version = c.Version()
	}
	if s.hello.Identity == 0 {
		s.hello.Identity = identity
	}
	if s.hello.Identity == 0 {
		s.hello.Identity = ids.next()
	}
}

// admit admits the client, with the upstream's client ID or one of the Relay's.
func (r *Relay) admit(now time.Time, e *Entry, id uint16) {
	s := &e.Value
	if !s.route.keepsClientIDs(s.protocol) {
		var ok bool
		if id, ok = s.route.ids.take(); !ok {
			r.end(now, e, stats.ByProxy, codec.Goodbye{Reason: codec.ServerFull})
			return
		}
		s.origin = ownID
	} else {
		s.origin = serversID
	}
	s.id = id
	s.keepPace()
	s.client.Conn.Admit(now, id)
}

// keepPace lets the client have the pace of its upstream's servers. By it the client decides how long it bears silence.
// The client is told before its own server is asked, so the latest pace of any of them counts.
func (s *link) keepPace() {
	if client, ok := s.client.Conn.(codec.Paced); ok {
		client.SetPace(s.route.pool.Pace())
	}
}

// notePace remembers the pace that the server has told.
func (r *Relay) notePace(now time.Time, s *link) {
	server, ok := s.upstream.Conn.(codec.Paced)
	if !ok || server.Pace() == s.route.pool.Pace() {
		return
	}
	s.route.pool.SetPace(server.Pace())
	r.journal.paced(now, s, server.Pace())
}

// dial opens the upstream side. It returns false if the session first waits for held sessions. failed is the server
// that was asked before, or nil. If there is no server, dial tells the client. If there is no way to any server, the
// session asks again later.
func (r *Relay) dial(now time.Time, e *Entry, failed *upstream.Server) bool {
	s := &e.Value
	if s.life == opening {
		r.enter(now, e, dialing)
	}
	s.upstream = side{Sender: bridge.Sender{Keeps: s.route.Failover.Hold > 0}}
	s.server = s.route.pool.Pick(now, e.Key.Client.Addr(), failed)
	if s.server == nil && s.route.pool.AnyReserved() {
		r.waiting.await(now, e)
		return false
	}
	s.tries++
	server := s.server
	switch {
	case server == nil:
		r.end(now, e, stats.ByUpstream, codec.Goodbye{Reason: codec.NoConnection})
	case s.route.Upstream.Protocol == NetherNet && r.replaced: // the successor joins
		s.tries--
		s.dialBy = now.Add(seekEvery)
	case r.reach(now, e):
	case s.route.mayTry(s.tries):
		s.route.pool.Failed(server, now, now, codec.TransportError.String())
		return r.dial(now, e, server)
	default:
		s.dialBy = now.Add(seekEvery)
	}
	return true
}

// reach opens the upstream side to the chosen server, and reports whether it could.
func (r *Relay) reach(now time.Time, e *Entry) bool {
	s := &e.Value
	s.path = r.paths.take(now, s.route.Upstream, s.server.Addr)
	joins := s.route.Upstream.Protocol == NetherNet
	if joins && s.route.Upstream.Joiner == nil || !joins && r.openUp(now, e, s.server.Addr) != nil {
		s.hangUp()
		return false
	}
	s.searches = s.route.Upstream.Transport.Probes
	s.preamble = newPreamble(s.route.Upstream.Headers, e.Key.Client, s.face.Addr())
	s.refused, s.askedAt = 0, now.Sub(r.born)
	s.spare(r.stood)
	s.dialBy = s.giveUpAt(now, r.settings.HandshakeTimeout, joins)
	hello := s.hello
	hello.From = s.socket
	// A client that has not answered yet must stay hidden from the game. A client that may wait for the game's first
	// messages joins at once. A held session that a server offers a wrong client ID must stay hidden from the game, too.
	hello.Tentative = !s.client.up && !s.protocol.Spec().ServerFirst || s.hold != nil && s.hold.ticket != nil
	hello.Patient = s.hold == nil
	hello.Held = s.route.Failover.Hold > 0
	switch {
	case joins:
		s.call = r.call(e)
		s.upstream.Conn = s.call
	case s.life == asking:
		s.upstream.Conn = s.route.speaks.(codec.Granter).DialAhead(now, s.server.Addr, hello)
	default:
		s.upstream.Conn = s.route.speaks.Dial(now, s.server.Addr, hello)
	}
	return true
}

// giveUpAt returns until when a server may be silent that is asked now: for a share of the client's own timeout, so
// there is time to tell the client, or to ask the next server. A server that is asked over HTTP may have to gather its
// addresses first. If there is no next one, it gets all but a moment of the time that is left.
func (s *link) giveUpAt(now time.Time, timeout time.Duration, overHTTP bool) time.Time {
	if !overHTTP {
		return now.Add(timeout / time.Duration(1+s.route.mostTries()))
	}
	half, last := now.Add(timeout/2), s.expires.Add(-timeout/10)
	if s.life.isJoining() && !s.route.mayTry(s.tries) && last.After(half) {
		return last
	}
	return half
}

// openUp opens the session's socket to an address of its server.
func (r *Relay) openUp(now time.Time, e *Entry, to netip.AddrPort) error {
	s := &e.Value
	socket, err := s.route.Upstream.dial(r.sockets.Sockets, s.path, to, e.Key.Client)
	if err != nil {
		r.drops.count(now, dropped{stats.DropSocket, s.listener, to, 0, err})
		return err
	}
	socket.SetOwner(e)
	s.socket = socket
	return nil
}

// retry dials another server after one did not answer, and reports whether it could.
func (r *Relay) retry(now time.Time, e *Entry, why codec.Reason) bool {
	s := &e.Value
	s.route.pool.Failed(s.server, now, r.born.Add(s.askedAt), why.String())
	if s.life.isEnding() || !s.client.Live() || !s.route.mayTry(s.tries) {
		return false
	}
	failed := s.server
	r.samples.lastOfServer(s)
	s.hangUp()
	r.dial(now, e, failed)
	return true
}

// establish notes that a side has connected. The session is established once both sides are.
func (r *Relay) establish(now time.Time, e *Entry) {
	s := &e.Value
	if !s.client.up || !s.upstream.up || s.life.isEnding() {
		return
	}
	r.table.settleDown(e)
	r.counters.Established++
	if s.life.isJoining() {
		r.enter(now, e, joined)
	}
	s.heard = s.since(now)
	r.journal.established(now, e)
}

// The Relay asks a server ahead where both protocols are a codec.Granter. The client waits until the server has
// granted or refused the connection. The data of the client's Hello follows after the grant.

// askFirst asks a server about a new client before the client is granted its connection.
func (r *Relay) askFirst(now time.Time, e *Entry) {
	s := &e.Value
	client := s.client.Conn.(codec.Deferrer)
	client.Defer()
	r.enter(now, e, asking)
	s.identify(client.Identity(), &r.identities)
	r.dial(now, e, nil)
}

// granted lets the client go on. A client that another server has granted before keeps that server's identity.
func (r *Relay) granted(now time.Time, e *Entry, server uint64) {
	if s := &e.Value; s.client.Live() {
		s.client.Conn.(codec.Deferrer).Grant(now, server)
		r.dirty.mark(e)
	}
}

// introduce sends the client's Hello to the server that was asked ahead.
func (r *Relay) introduce(now time.Time, e *Entry) {
	s := &e.Value
	r.enter(now, e, dialing)
	if s.upstream.Live() {
		s.upstream.Conn.(codec.Introducer).Introduce(now, s.hello)
		r.dirty.mark(e)
	}
}
