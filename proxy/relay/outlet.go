package relay

import (
	"net/netip"
	"time"

	"tidegate/codec"
	"tidegate/internal/netio"
	"tidegate/internal/stray"
	"tidegate/proxy/relay/admission"
	"tidegate/proxy/stats"
	"tidegate/ratelimit"
)

// outlet sends a Relay's datagrams: to clients, to servers along paths, and to strangers within a budget.
type outlet struct {
	Sockets
	tap      *tap // between the Relay and the loop's sockets; nil: no capture runs, and nothing is recorded
	paths    *paths
	drops    *dropLog
	counters *stats.Counters
	dirty    *marked
	players  *Players
	ahead    []*Entry // the sessions of the next datagrams, until their memory is fetched

	replies   *ratelimit.Budget    // for answers to strangers that are no larger than their questions
	allowance *admission.Allowance // for clients without proof of address; shared by all Relays
	unproved  *admission.Unproved  // of the settings
	scratch   []byte               // for datagrams to trusted proxies
}

// Answers to strangers that are no larger than the question cannot amplify. But they cost more than all other work on
// a stranger. A loop sends so many a second in all, and so many to one network (IPv4 /24, IPv6 /48). That lets 10,000
// RakNet clients join within a second, 250 of them from one network.
const (
	repliesOverall = 20_000
	repliesNetwork = 500
)

func (o *outlet) insertTap(table sessionTable) {
	if o.tap == nil {
		o.tap = &tap{Sockets: o.Sockets, table: table}
		o.Sockets = o.tap
	}
}

// transmit writes the datagrams of the touched sides of a session.
func (o *outlet) transmit(now time.Time, e *Entry, touched sides) {
	s := &e.Value
	for touched.has(clientSide) {
		b, ok := s.client.Conn.Transmit(now, s.via.begin(o.Buffer()))
		if !ok {
			break
		}
		o.sendToClient(now, e, b)
	}
	if touched.has(clientSide) && s.mayStray() {
		s.resent = s.client.Conn.Stats().Resent
	}
	if touched.has(serverSide) && s.upstream.Conn != nil && s.socket != nil {
		o.sendUp(now, e)
	}
}

// sendToClient sends a datagram to a session's client, within the bounds of trust.
func (o *outlet) sendToClient(now time.Time, e *Entry, datagram []byte) {
	s, client := &e.Value, e.Key.Client
	size := len(datagram) - s.via.headerLen()
	if !s.trust.Spend(client, size) && !s.spendMore(now, o.allowance, o.unproved, client, size) {
		o.drops.count(now, dropped{stats.DropUnproved, s.listener, client, len(datagram), nil})
		return
	}
	o.counters.Clients.Out.Count(datagram)
	// A client whose connection sends a message again may not be where its last datagram has arrived. A silent one does
	// not show that.
	if s.mayStray() && s.client.Conn.Stats().Resent != s.resent {
		o.seek(s, client, datagram)
	}
	if far, ok := s.face.(*farFace); ok {
		o.answerFar(far, s.listener, client, datagram)
		return
	}
	if s.edge != nil {
		client = s.edge.sources.Active()
	}
	o.Send(s.face, s.via.to(client), datagram)
}

// spendMore reports whether a datagram may go to a client beyond its credit. A client that may never prove its
// address plays within an allowance. Riptide repeats a lost Welcome. This repetition counts as an answer to a
// stranger, like a pong. The client waits for it in silence, and so earns no credit.
func (s *link) spendMore(now time.Time, a *admission.Allowance, bound *admission.Unproved, client netip.AddrPort,
	size int) bool {
	switch {
	case s.trust.MayBeSilent(), s.trust.Guessed && s.trust.Answered:
		return a.Spend(now, bound, &s.trust, client, size)
	case s.trust.Proof == codec.ProvedClientID:
		return s.listener.mayAnswer(now, client)
	}
	return false
}

// answer sends a stateless reply. A larger reply than the question can amplify an attack. A smaller one still takes
// time. Each kind has a budget.
func (o *outlet) answer(now time.Time, l *listener, s netio.Socket, from netip.AddrPort, datagram, reply []byte) {
	switch {
	case l.stream:
	case len(reply) > len(datagram) && !l.mayAnswer(now, from):
		o.drops.add(now, dropped{stats.DropPingBudget, l, from, len(datagram), nil})
		return
	case len(reply) <= len(datagram) && !o.replies.Allow(now, from.Addr()):
		o.drops.add(now, dropped{stats.DropReplyBudget, l, from, len(datagram), nil})
		return
	}
	o.drops.has(stats.FateAnswered)
	o.counters.Clients.Out.Count(reply)
	o.sendAnswer(l, s, from, reply)
}

// sendAnswer sends a stranger an answer, through the trusted proxy of the present datagram if there is one.
func (o *outlet) sendAnswer(l *listener, s netio.Socket, client netip.AddrPort, answer []byte) {
	if l.proxies == nil {
		o.Send(s, client, answer)
		return
	}
	via := &l.proxies.at
	if via.simple() {
		o.scratch = append(via.begin(o.scratch[:0]), answer...)
		answer = o.scratch
	}
	o.Send(s, via.to(client), answer)
}

// sendUp sends the datagrams of a session's upstream side, as far as its path allows now.
func (o *outlet) sendUp(now time.Time, e *Entry) {
	s := &e.Value
	way := s.path
	for way == nil || way.lets(now, s) {
		b, ok := s.upstream.Conn.Transmit(now, s.preamble.begin(o.Buffer()))
		if !ok {
			return
		}
		o.sendToServer(now, s, b)
	}
	if !s.waits {
		s.waits = true
		way.line.push(e)
		o.paths.block(way)
	}
}

// sendToServer sends a datagram on a session's path.
func (o *outlet) sendToServer(now time.Time, s *link, b []byte) {
	if s.path != nil {
		o.paths.count(now, s.path)
	}
	o.counters.Upstreams.Out.Count(b)
	s.preamble.sent()
	to := s.server.Addr
	if s.call != nil { // its answer has named another port
		to = s.socket.Peer()
	}
	o.Send(s.socket, to, b)
}

// sendAll sends the datagrams of a connection to a server that is no session's.
func (o *outlet) sendAll(now time.Time, c codec.Conn, header *preamble, s netio.Socket, to netip.AddrPort) {
	for b, ok := c.Transmit(now, header.begin(o.Buffer())); ok; b, ok = c.Transmit(now, header.begin(o.Buffer())) {
		header.sent()
		o.counters.Upstreams.Out.Count(b)
		o.Send(s, to, b)
	}
}

// forwardUp forwards a client's datagram to its server, or parks it until its path is free.
func (o *outlet) forwardUp(now time.Time, e *Entry, datagram []byte) {
	s := &e.Value
	way := s.path
	if way != nil && way.bound.Guessed {
		way.bound.Silent = 0
	}
	switch {
	case way == nil:
	case !way.blocked && way.free(now):
		o.paths.count(now, way)
	case way.parked.len() == maxParked:
		o.drops.add(now, dropped{stats.DropPaced, s.listener, e.Key.Client, len(datagram), nil})
		return
	default:
		way.park(e, datagram)
		o.paths.block(way)
		return
	}
	o.toServer(now, e, datagram, true)
}

// toServer sends a client's datagram to its server. lent says that it lies in the sockets' own memory.
func (o *outlet) toServer(now time.Time, e *Entry, datagram []byte, lent bool) {
	s := &e.Value
	switch {
	case s.preamble != nil:
		o.sendHeaded(now, e, s.socket, s.server.Addr, s.preamble.begin(o.Buffer()), datagram)
		s.preamble.sent()
	case lent:
		o.Forward(s.socket, s.server.Addr, datagram)
	default:
		o.Send(s.socket, s.server.Addr, datagram)
	}
}

// sendHeaded sends a datagram after the header in b.
func (o *outlet) sendHeaded(now time.Time, e *Entry, s netio.Socket, to netip.AddrPort, b, datagram []byte) {
	if len(b)+len(datagram) > netio.MaxDatagram {
		o.drops.add(now, dropped{stats.DropTooLarge, e.Value.listener, e.Key.Client, len(datagram), nil})
		return
	}
	o.Send(s, to, append(b, datagram...))
}

// clear lets waiting sessions and datagrams leave, as far as their paths allow: one datagram each in turn.
func (o *outlet) clear(now time.Time) {
	still := o.paths.blocked[:0]
	for _, p := range o.paths.blocked {
		for p.free(now) && o.nextInLine(now, p) {
		}
		if p.blocked = p.line.len() > 0 || p.parked.len() > 0; p.blocked {
			still = append(still, p)
		}
	}
	o.paths.blocked = still
}

// nextInLine gives one waiting session or datagram a turn. It reports whether there was one.
func (o *outlet) nextInLine(now time.Time, way *path) bool {
	way.odd = !way.odd // neither kind of session waits for all of the other kind
	if way.odd {
		return o.sendParked(now, way) || o.sendWaiting(now, way)
	}
	return o.sendWaiting(now, way) || o.sendParked(now, way)
}

// sendWaiting gives the first session in line its turn. It reports whether there was one.
func (o *outlet) sendWaiting(now time.Time, way *path) bool {
	e := way.line.pop()
	if e == nil {
		return false
	}
	s := &e.Value
	if s.path != way || !s.waits {
		return true // the session has left
	}
	o.dirty.mark(e)
	b, ok := s.upstream.Conn.Transmit(now, s.preamble.begin(o.Buffer()))
	if s.waits = ok; ok {
		o.counters.Paced++
		o.sendToServer(now, s, b)
		way.line.push(e)
	}
	return true
}

// parkLine takes the datagrams of the sessions in a path's line, and parks them. A session can be saved only after its
// connection has given all datagrams.
func (o *outlet) parkLine(now time.Time, way *path) {
	for e := way.line.pop(); e != nil; e = way.line.pop() {
		s := &e.Value
		if s.path != way || !s.waits {
			continue // the session has left
		}
		s.waits = false
		for {
			b, ok := s.upstream.Conn.Transmit(now, o.Buffer())
			if !ok {
				break
			}
			way.park(e, b)
		}
		o.dirty.mark(e)
	}
}

// sendParked sends the first datagram that is parked on a path. It reports whether there was one.
func (o *outlet) sendParked(now time.Time, way *path) bool {
	d := way.parked.pop()
	if d == nil {
		return false
	}
	if s := &d.of.Value; s.path == way && s.socket != nil {
		o.paths.count(now, way)
		o.counters.Paced++
		if !s.isRelayed() {
			o.counters.Upstreams.Out.Count(d.bytes)
		}
		o.toServer(now, d.of, d.bytes, false)
	}
	d.of = nil
	return true
}

// seek also sends a datagram on other ways than the client's last one: from here, and by the node where the last
// datagram of any client of the listener has arrived. A floating address leads all clients to the same node.
func (o *outlet) seek(s *link, client netip.AddrPort, datagram []byte) {
	far, ok := s.face.(*farFace)
	if ok {
		o.Send(far.Socket, client, datagram)
	}
	if at := s.listener.arriving; at != "" && (!ok || far.node != at) {
		o.answerFar(&farFace{s.home(), at}, s.listener, client, datagram)
	}
}

// answerFar sends a datagram to a client by another node.
func (o *outlet) answerFar(f *farFace, l *listener, client netip.AddrPort, datagram []byte) {
	carrier := o.players.carrier.Load()
	if carrier == nil {
		return
	}
	answer := stray.Datagram{Listener: l.id, Client: client, Bytes: datagram}
	if f.Socket != l.socket {
		answer.Local = f.Addr().Addr()
	}
	(*carrier).Answer(f.node, &answer)
}
