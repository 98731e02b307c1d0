package proxy

import (
	"net/netip"
	"time"

	"tidegate/codec"
	"tidegate/internal/netio"
	"tidegate/proxy/bridge"
	"tidegate/proxy/stats"
	sessions "tidegate/session"
)

// outcome is the result of a new client's datagram.
type outcome uint8

const (
	turnedAway outcome = iota
	mayRepeat          // there is no place at present, and the client was not told so
	taken              // there is a session now
)

// newcomer handles a datagram from an address without a session. It closes a stream that gets no session, unless the
// client may ask again.
func (r *Relay) newcomer(now time.Time, d *listener, s netio.Socket, from netip.AddrPort, datagram []byte) {
	w := r.guard.recognise(now, d, from, datagram)
	switch {
	case w != nil && d.route.Mode == ModeRelay:
		if !r.sockets.answerList(now, d, w, s, from, datagram) {
			r.openRelayed(now, d, w, s, from, datagram)
		}
		return
	case w != nil:
		switch r.greet(now, d, w, s, from, datagram) {
		case taken:
			return
		case mayRepeat:
			if a, ok := s.(netio.AcceptedStream); ok {
				a.AwaitHello()
				return
			}
		}
	}
	if d.stream {
		s.Close()
	}
}

// recognise finds the protocol of a new client's datagram, or drops the datagram.
func (g *guard) recognise(now time.Time, d *listener, from netip.AddrPort, datagram []byte) *protocolEntry {
	if !g.mayEnter(now, d, from, datagram) {
		return nil
	}
	w := d.sniff(datagram)
	if w == nil {
		g.drops.add(now, dropped{stats.DropUnknownProtocol, d, from, len(datagram), nil})
	}
	return w
}

// greet handles the first datagram from an address in a terminated protocol.
func (r *Relay) greet(now time.Time, d *listener, w *protocolEntry, s netio.Socket, from netip.AddrPort,
	datagram []byte) outcome {
	// Where Accept gives proof, it also shows which client asks for a session. Elsewhere every datagram counts as a
	// request.
	proved := w.proof == codec.ProvedAccept
	full := r.table.room(now, from, proved)
	closed := r.draining || d.retired
	if !proved && (r.guard.mustWait(now, r.draining, d, from, len(datagram), full) ||
		!r.guard.mayAsk(now, d, from, len(datagram), false)) {
		return mayRepeat
	}
	if full != nil || closed {
		if refused, out := r.refuse(now, d, w, s, from, datagram, full); refused {
			return out
		}
	}
	conn, reply, err := w.protocol.Accept(now, from, datagram, r.sockets.Buffer())
	if len(reply) > 0 {
		r.sockets.answer(now, d, s, from, datagram, reply)
	}
	switch {
	case err != nil:
		r.drops.add(now, dropped{stats.DropOf(err), d, from, len(datagram), err})
	case conn != nil && r.isPresent(now, d, w, from, conn):
		r.sockets.refusePresent(now, d, w, s, from, datagram)
	case conn == nil:
	case full != nil || closed: // the protocol has no refusal
		_, why := d.whyFull(r.draining, full)
		r.drops.add(now, dropped{why, d, from, len(datagram), full})
	case proved && !r.guard.mayAsk(now, d, from, len(datagram), true):
		return mayRepeat
	case r.open(now, d, w, s, from, len(datagram), conn):
		return taken
	}
	return turnedAway
}

// mustWait drops the datagram of a new client without proof if there will be a place soon. It notes that the client
// has asked. But the limits of handshakes do not count it: a request without a place must not keep the client out
// later.
func (g *guard) mustWait(now time.Time, draining bool, d *listener, from netip.AddrPort, size int, full error) bool {
	if full == nil {
		return false
	}
	reason, why := d.whyFull(draining, full)
	if reason != codec.ReasonNone {
		return false
	}
	g.seen.Seen(g.sinceStart(now), from)
	g.drops.add(now, dropped{why, d, from, size, full})
	return true
}

// refuse refuses a new client in its protocol. It returns false for a datagram that has no refusal, because it does
// not ask for a session. Most clients take a refusal as final. So refuse sends none where only half-open places are
// short. Such places are soon free again, and clients repeat themselves.
func (r *Relay) refuse(
	now time.Time, d *listener, w *protocolEntry, s netio.Socket, from netip.AddrPort, datagram []byte, full error,
) (refused bool, out outcome) {
	reason, why := d.whyFull(r.draining, full)
	said := reason
	if said == codec.ReasonNone {
		said = codec.ServerFull
	}
	reply := w.protocol.Refuse(datagram, r.sockets.Buffer(), said)
	if len(reply) == 0 {
		return false, turnedAway
	}
	r.drops.add(now, dropped{why, d, from, len(datagram), full})
	if reason == codec.ReasonNone {
		return true, mayRepeat
	}
	r.sockets.answer(now, d, s, from, datagram, reply)
	return true, turnedAway
}

// whyFull returns the refusal of a new client without a place in the table, and the reason to drop its datagram.
// ReasonNone means that there will be a place soon, and no refusal.
func (d *listener) whyFull(draining bool, full error) (codec.Reason, stats.Drop) {
	switch {
	case draining, d.retired:
		return codec.ServerStopped, stats.DropClosing
	case full == sessions.ErrHalfOpen:
		return codec.ReasonNone, stats.DropHalfOpen
	case full == sessions.ErrAddress, full == sessions.ErrNetwork:
		return codec.ReasonNone, stats.DropHalfOpenSource
	case full == sessions.ErrAddressFull, full == sessions.ErrNetworkFull:
		return codec.ServerFull, stats.DropSourceFull
	}
	return codec.ServerFull, stats.DropTableFull
}

// answer sends a stateless reply. A larger reply than the question can amplify an attack. A smaller one still takes
// time. Each kind has a budget.
func (o *outlet) answer(now time.Time, d *listener, s netio.Socket, from netip.AddrPort, datagram, reply []byte) {
	switch {
	case d.stream:
	case len(reply) > len(datagram) && !d.mayAnswer(now, from):
		o.drops.add(now, dropped{stats.DropPingBudget, d, from, len(datagram), nil})
		return
	case len(reply) <= len(datagram) && !o.replies.Allow(now, from.Addr()):
		o.drops.add(now, dropped{stats.DropReplyBudget, d, from, len(datagram), nil})
		return
	}
	o.counters.Clients.Out.Count(reply)
	o.sendAnswer(d, s, from, reply)
}

// answerList answers a server list that asks through a relay. It reports whether the datagram is such a question. It
// makes no session, and asks no server: strangers' questions cost the servers nothing.
func (o *outlet) answerList(now time.Time, d *listener, w *protocolEntry, s netio.Socket, from netip.AddrPort,
	datagram []byte) bool {
	protocol, ok := w.protocol.(codec.Pinger)
	if !ok || !protocol.IsPing(datagram) {
		return false
	}
	var reply []byte
	if d.pong != nil {
		reply = d.pong.answer(o.Buffer(), datagram, protocol)
	} else {
		_, reply, _ = protocol.Accept(now, from, datagram, o.Buffer())
	}
	if len(reply) == 0 {
		o.drops.add(now, dropped{stats.DropUnanswered, d, from, len(datagram), nil})
		return true
	}
	o.answer(now, d, s, from, datagram, reply)
	return true
}

// mayAnswer takes an answer from the budget for answers that can amplify an attack.
func (d *listener) mayAnswer(now time.Time, from netip.AddrPort) bool {
	return d.answers == nil || d.answers.Allow(now, from.Addr())
}

// sniff finds the protocol of a first datagram, or returns nil.
func (d *listener) sniff(datagram []byte) *protocolEntry {
	for i := range d.entries {
		if d.entries[i].protocol.Sniff(datagram) {
			return &d.entries[i]
		}
	}
	return nil
}

// open makes a session for a new client. If necessary, a half-open session makes room.
func (r *Relay) open(now time.Time, d *listener, w *protocolEntry, s netio.Socket, from netip.AddrPort, size int,
	conn codec.Conn) bool {
	e, err := r.add(now, d, w, s, from, &terminated{
		bridge:  w.bridge,
		client:  side{Sender: bridge.Sender{Conn: conn}},
		trust:   trust{proof: w.proof, unbound: r.settings.Unproved.trusts(from.Addr())},
		expires: now.Add(r.settings.HandshakeTimeout),
	})
	if err != nil { // another loop has taken the last place of the address
		_, why := d.whyFull(false, err)
		r.drops.add(now, dropped{why, d, from, size, err})
		return false
	}
	r.presence.add(&e.Value, from)
	e.Value.trust.owe(from, size)
	if w.asksFirst {
		r.askFirst(now, e)
	}
	r.settle(now, e)
	r.table.reviewTrust(e, &r.known, false)
	return true
}

// add adds a session to the table. If necessary, a half-open session makes room. A session without a terminated part
// is relayed.
func (r *Relay) add(now time.Time, d *listener, w *protocolEntry, s netio.Socket, from netip.AddrPort,
	t *terminated) (*entry, error) {
	if e := r.table.victim(now, r.table.Room(from.Addr()), t != nil && w.proof == codec.ProvedAccept); e != nil {
		r.evict(now, e)
	}
	e, err := r.table.Add(sessions.Key{Listener: d.index, Client: from}, session{
		listener: d, route: d.route, protocol: w.protocol, face: s, via: d.via(nil), serial: r.serials.next(), tally: w.tally,
		opened: now, heard: now, terminated: t,
	})
	if err != nil {
		return nil, err
	}
	d.sessions++
	r.counters.Opened++
	w.tally.Opened++
	r.guard.enroll(&e.Value.meter, from.Addr())
	return e, nil
}
