package relay

import (
	"errors"
	"net/netip"
	"time"

	"tidegate/codec"
	"tidegate/internal/netio"
	"tidegate/internal/policy"
	"tidegate/proxy/bridge"
	"tidegate/proxy/relay/admission"
	"tidegate/proxy/stats"
	"tidegate/session"
)

// newcomer handles a datagram from an address without a session. It closes a stream that gets no session, unless the
// client may ask again.
func (r *Relay) newcomer(now time.Time, l *listener, s netio.Socket, from netip.AddrPort, datagram []byte) {
	entry := r.recognise(now, l, s, from, datagram)
	switch {
	case entry != nil && entry.protocol == NetherNet:
		r.openEdge(now, l, entry, s, from, datagram)
		return
	case entry != nil && l.route.Mode == policy.ModeRelay:
		if !r.sockets.answerList(now, l, entry, s, from, datagram) &&
			!r.sockets.answerQuery(now, l, entry, s, from, datagram) {
			r.openRelayed(now, l, entry, s, from, datagram)
		}
		return
	case entry != nil:
		switch r.greet(now, l, entry, s, from, datagram) {
		case taken:
			return
		case mayRepeat:
			if a, ok := s.(netio.AcceptedStream); ok {
				a.AwaitHello()
				return
			}
		}
	}
	if l.stream {
		s.Close()
	}
}

// recognise finds the protocol of a new client's datagram, or answers or drops the datagram.
func (r *Relay) recognise(now time.Time, l *listener, s netio.Socket, from netip.AddrPort,
	datagram []byte) *protocolEntry {
	if !r.drops.passes(now, l, from, len(datagram), r.guard.MayEnter(now, l.name, from, len(datagram))) {
		return nil
	}
	entry := l.sniff(datagram)
	if entry == nil && !r.sockets.answerWord(now, l, s, from, datagram) {
		why, cause := strangeness(l, datagram)
		r.drops.add(now, dropped{why, l, from, len(datagram), cause})
	}
	return entry
}

// Causes of drops that an operator can remedy.
var (
	errDTLS  = errors.New("DTLS: relay it with the protocol any")
	errQuery = errors.New("a server query without an answer of the servers: pong, or relay it with the protocol any")
)

// strangeness returns the reason to drop a datagram that no protocol of a listener knows, and what it looks like.
func strangeness(l *listener, datagram []byte) (stats.Drop, error) {
	const handshakeAt, clientHello = 13, 1
	switch n := len(datagram); {
	case l.opaque(datagram) != nil:
		return stats.DropCompressed, codec.ErrCompressed
	case n > handshakeAt && string(datagram[:2]) == "\x16\xfe" && datagram[handshakeAt] == clientHello:
		return stats.DropEncrypted, errDTLS
	case n > 4 && string(datagram[:4]) == "\xff\xff\xff\xff":
		return stats.DropQuery, errQuery
	}
	return stats.DropUnknownProtocol, questionOf(datagram)
}

// listPing follows the first byte and the time of RakNet's question for a server list.
const listPing = "\x00\xff\xff\x00\xfe\xfe\xfe\xfe\xfd\xfd\xfd\xfd\x12\x34\x56\x78"

// errMoved is the note of a drop that a player notices.
var errMoved = errors.New("it may be RakNet data of no session: a player's address has changed, or its server is lost")

// questionOf returns errListPing for a RakNet question of a server list, errMoved for what may be RakNet's data, else
// nil.
func questionOf(datagram []byte) error {
	const at = 9
	if len(datagram) >= at+len(listPing) && (datagram[0] == 1 || datagram[0] == 2) &&
		string(datagram[at:at+len(listPing)]) == listPing {
		return errListPing
	}
	if len(datagram) >= 4 && datagram[0]&0xf0 == 0x80 {
		return errMoved
	}
	return nil
}

// greet handles the first datagram from an address in a terminated protocol.
func (r *Relay) greet(now time.Time, l *listener, entry *protocolEntry, s netio.Socket, from netip.AddrPort,
	datagram []byte) outcome {
	// Where Accept gives proof, it also shows which client asks for a session. Elsewhere every datagram counts as a
	// request.
	proved := entry.proof == codec.ProvedAccept
	full := r.table.room(now, from, proved)
	closed := r.draining || l.retired
	if !proved && (r.mustWait(now, l, from, len(datagram), full) ||
		!r.mayAsk(now, l, from, len(datagram), false)) {
		return mayRepeat
	}
	if full != nil || closed {
		if refused, out := r.refuse(now, l, entry, s, from, datagram, full); refused {
			return out
		}
	}
	conn, reply, err := entry.protocol.Accept(now, from, datagram, r.sockets.Buffer())
	if len(reply) > 0 {
		r.sockets.answer(now, l, s, from, datagram, reply)
	}
	switch {
	case err != nil:
		r.drops.add(now, dropped{stats.DropOf(err), l, from, len(datagram), err})
	case conn != nil && r.isPresent(now, l, entry, from, conn):
		if entry.proof == codec.ProvedAccept &&
			(r.presence.mayReturn(now, l, from.Addr(), conn, r.shard) || mayHaveLeft(now, r, l, from, conn)) {
			r.drops.add(now, dropped{stats.DropKnown, l, from, len(datagram), nil})
			return mayRepeat
		}
		r.sockets.refusePresent(now, l, entry, s, from, datagram)
	case conn == nil:
	case full != nil || closed: // the protocol has no refusal
		_, why := l.whyFull(r.draining, full)
		r.drops.add(now, dropped{why, l, from, len(datagram), full})
	case proved && !r.mayAsk(now, l, from, len(datagram), true):
		return mayRepeat
	case r.open(now, l, entry, s, from, len(datagram), conn):
		return taken
	}
	return turnedAway
}

// mayAsk judges a new client that asks for a session, and drops its datagram if it may not.
func (r *Relay) mayAsk(now time.Time, l *listener, from netip.AddrPort, size int, proved bool) bool {
	halfFull := 2*r.table.HalfOpen() >= r.settings.Limits.HalfOpen
	return r.drops.passes(now, l, from, size, r.guard.MayAsk(now, from, size, proved, halfFull))
}

// answerList answers a server list that asks through a relay. It reports whether the datagram is such a question. It
// makes no session, and asks no server: strangers' questions cost the servers nothing.
func (o *outlet) answerList(now time.Time, l *listener, entry *protocolEntry, s netio.Socket, from netip.AddrPort,
	datagram []byte) bool {
	protocol, ok := entry.protocol.(codec.Pinger)
	if !ok || !protocol.IsPing(datagram) {
		return false
	}
	var reply []byte
	if l.pong != nil {
		reply = l.pong.answer(o.Buffer(), datagram, protocol)
	} else {
		_, reply, _ = protocol.Accept(now, from, datagram, o.Buffer())
	}
	if len(reply) == 0 {
		o.drops.add(now, dropped{stats.DropUnanswered, l, from, len(datagram), nil})
		return true
	}
	o.answer(now, l, s, from, datagram, reply)
	return true
}

// open makes a session for a new client. If necessary, a half-open session makes room.
func (r *Relay) open(now time.Time, l *listener, entry *protocolEntry, s netio.Socket, from netip.AddrPort, size int,
	conn codec.Conn) bool {
	e, err := r.add(now, l, entry, s, from, &terminated{
		bridge: entry.bridge,
		client: side{Sender: bridge.Sender{Conn: conn}},
		trust: admission.Trust{
			Proof: entry.proof, Guessed: entry.guessed, Unbound: r.settings.Unproved.Trusts(from.Addr()),
		},
		expires: now.Add(r.settings.HandshakeTimeout),
	})
	if err != nil { // another loop has taken the last place of the address
		_, why := l.whyFull(false, err)
		r.drops.add(now, dropped{why, l, from, size, err})
		return false
	}
	r.drops.has(stats.FateTaken)
	r.presence.add(&e.Value, from)
	e.Value.trust.Owe(from, size)
	if entry.asksFirst {
		r.askFirst(now, e)
	}
	r.settle(now, e)
	r.table.reviewTrust(e, &r.known, false)
	return true
}

// isPresent reports whether a new client already plays from another address. A goodbye of that session is believed if
// the client has proved that it comes from the same host.
func (r *Relay) isPresent(now time.Time, l *listener, entry *protocolEntry, from netip.AddrPort, conn codec.Conn) bool {
	known, ok := r.presence.find(l, conn)
	if !ok {
		return false
	}
	e := r.table.Get(now, session.Key{Listener: l.index, Client: known.from})
	if e == nil || e.Value.serial != known.session || known.from.Addr() != from.Addr() ||
		entry.proof != codec.ProvedAccept {
		return true
	}
	old, ok := e.Value.client.Conn.(codec.Leaver)
	if !ok || !old.Believe(now) {
		return true
	}
	r.settle(now, e)
	return false
}

// A client that is silent for silentTime is asked whether it is still there, if a client of its name and host comes
// from another port. After quietTime the new client gets no refusal yet, since it would give up.
const (
	quietTime  = 250 * time.Millisecond
	silentTime = time.Second
)

// mayHaveLeft reports whether the session of a client's name and host may be over. Its client is asked, and the new
// client asks again meanwhile. A live client answers. So a thief of its name ends nothing.
func mayHaveLeft(now time.Time, r *Relay, l *listener, from netip.AddrPort, conn codec.Conn) bool {
	known, ok := r.presence.find(l, conn)
	e := r.table.Get(now, session.Key{Listener: l.index, Client: known.from})
	if !ok || e == nil || e.Value.serial != known.session || known.from.Addr() != from.Addr() {
		return false
	}
	if silent := e.Value.since(now) - e.Value.heard; silent < silentTime {
		return silent >= quietTime
	}
	old, ok := e.Value.client.Conn.(codec.Leaver)
	if !ok || !old.Doubt(now) {
		return false
	}
	r.settle(now, e)
	return true
}

// refusePresent tells a client that it is already connected.
func (o *outlet) refusePresent(now time.Time, l *listener, entry *protocolEntry, s netio.Socket,
	from netip.AddrPort, datagram []byte) {
	o.drops.add(now, dropped{stats.DropKnown, l, from, len(datagram), nil})
	if reply := entry.protocol.Refuse(datagram, o.Buffer(), codec.AlreadyConnected); len(reply) > 0 {
		o.answer(now, l, s, from, datagram, reply)
	}
}

// judgeOpening returns why a relayed client's datagram must not reach the server, or nil. Once the server has let the
// client in, all datagrams pass.
func (s *link) judgeOpening(now time.Time, datagram []byte) error {
	if s.gate == codec.GateOpen {
		return nil
	}
	keeper, ok := s.route.Upstream.Protocol.(codec.Gatekeeper)
	if !ok {
		s.gate = codec.GateOpen
		return nil
	}
	return keeper.PassUp(now, &s.gate, s.server.Addr, datagram)
}

// noteOpening gives a server's datagram to the Gatekeeper of a client that is not let in yet.
func (s *link) noteOpening(now time.Time, datagram []byte) {
	if s.gate == codec.GateOpen {
		return
	}
	if keeper, ok := s.route.Upstream.Protocol.(codec.Gatekeeper); ok {
		keeper.PassDown(now, &s.gate, s.server.Addr, datagram)
	}
}

// clearAway removes a session that has ended, and reports whether it did.
func clearAway(r *Relay, now time.Time, e *Entry) bool {
	switch {
	case succeed(r, now, e):
		return true
	case !e.Value.over() || e.Value.waits:
		return false
	}
	r.forget(now, e)
	return true
}

// succeed gives the place of an ended session to a new client at its address, if there is one. The server gets the
// goodbye of the old one without the session.
func succeed(r *Relay, now time.Time, e *Entry) bool {
	s := &e.Value
	if !s.client.Down {
		return false
	}
	old, ok := s.client.Conn.(codec.Succeeder)
	if !ok {
		return false
	}
	conn, entry := old.Successor(), s.listener.entryOf(s.protocol)
	if conn == nil || entry == nil || r.draining || s.listener.retired {
		return false
	}
	if s.upstream.Live() && s.socket != nil {
		r.closing.add(now, e, r)
	}
	s.upstream.Down = true
	l, from := s.listener, e.Key.Client
	r.forget(now, e)
	r.open(now, l, entry, l.socket, from, 0, conn)
	return true
}
