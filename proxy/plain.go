package proxy

import (
	"net/netip"
	"time"

	"tidegate/codec"
	"tidegate/internal/netio"
	"tidegate/internal/upstream"
	"tidegate/proxy/stats"
	"tidegate/session"
)

// plainEntry is a session in ModeRelay in the table of a Relay.
type plainEntry = session.Entry[plain]

// plain is a session of a route in ModeRelay: the datagrams of a client and a server pass as they are, and nothing is
// known of what they say. It is established when the server has answered and the client has spoken again, which says at
// least that the client hears answers; and it ends by silence alone, or when nobody listens at the server.
//
// Deadlines are lazy: a datagram only notes the time, and the table looks at it when the last deadline comes.
type plain struct {
	door     *door
	route    *route
	protocol codec.Protocol   // whose Sniff let the client in
	face     netio.Socket     // towards the client
	via      *front           // by which the client comes; nil: by itself
	server   *upstream.Server // nil while none is chosen
	socket   netio.Socket     // towards server; nil while there is none
	path     *path            // to server, if sessions share a choice or a bound there

	serial SessionID
	tally  *stats.Tally
	meter  meter

	preamble *preamble // of datagrams to server; nil: never any

	opened time.Time
	heard  time.Time // when the client last sent a datagram
	// Datagrams and bytes that the client and the server have sent and that were passed on.
	up, down stats.Traffic

	tries       uint16 // servers dialled so far
	refused     uint8  // refusals by the server's host since its last datagram
	answered    bool   // by a server
	established bool

	shortcut  *shortcut // nil: all datagrams come here
	refusedAt uint64    // one more than the Forwarder's changes when it refused the session
}

// greetPlain takes the first datagram from an address at a door whose route is in ModeRelay.
func (r *Relay) greetPlain(now time.Time, d *door, w *way, s netio.Socket, from netip.AddrPort, datagram []byte) {
	victim, full := r.plainRoom(now, from)
	if r.mustWait(now, d, from, len(datagram), full) || !r.mayAsk(now, d, from, len(datagram), false) {
		return
	}
	if full != nil || r.draining || d.retired {
		r.turnAway(now, d, w, s, from, datagram, full)
		return
	}
	if victim != nil {
		r.counters.Evicted++
		r.endPlain(now, victim, stats.ByProxy, codec.ServerFull)
	}
	e, err := r.plains.Add(session.Key{Listener: d.index, Client: from}, plain{
		door: d, route: d.route, protocol: w.protocol, face: s, via: d.via(nil), opened: now, heard: now,
		serial: r.serials.next(), tally: w.tally,
	})
	if err != nil {
		r.drop(now, stats.DropTableFull, d, from, len(datagram), err)
		return
	}
	d.sessions++
	r.counters.Opened++
	w.tally.Opened++
	r.enroll(&e.Value.meter, from.Addr())
	if !r.dialPlain(now, e, nil) {
		r.endPlain(now, e, stats.ByUpstream, codec.NoConnection)
		return
	}
	r.plains.Schedule(e, now, e.Value.expiry(r.settings))
	r.passUp(now, e, datagram)
}

// plainRoom reports why there is no room for a further session, or nil. victim is the half-open session that must make
// room for it, if one must. Both kinds of sessions share limits.Sessions.
func (r *Relay) plainRoom(now time.Time, from netip.AddrPort) (victim *plainEntry, full error) {
	full = r.plains.Room(from.Addr())
	if full == nil && r.table.Len()+r.plains.Len() >= r.settings.Limits.Sessions {
		full = session.ErrFull
	}
	eldest := r.plains.Eldest(false)
	switch {
	case eldest == nil:
	case full == session.ErrFull, full == session.ErrHalfOpen && now.Sub(eldest.Value.opened) >= youth:
		return eldest, nil
	}
	return nil, full
}

// turnAway tells a newcomer, where its protocol can, that there is no place.
func (r *Relay) turnAway(now time.Time, d *door, w *way, s netio.Socket, from netip.AddrPort, datagram []byte,
	full error) {
	if refused, _ := r.refuse(now, d, w, s, from, datagram, full); !refused {
		_, why := r.whyFull(d, full)
		r.drop(now, why, d, from, len(datagram), full)
	}
}

// dialPlain opens a socket towards a server, and reports whether one could be had. failed is the server tried before,
// or nil.
func (r *Relay) dialPlain(now time.Time, e *plainEntry, failed *upstream.Server) bool {
	p := &e.Value
	p.tries++
	if p.server = p.route.pool.Pick(now, e.Key.Client.Addr(), failed); p.server == nil {
		return false
	}
	p.path = r.takePath(now, p.route.Upstream, p.server.Addr)
	socket, err := r.dialUp(p.route.Upstream, p.path, p.server.Addr, e.Key.Client)
	if err != nil {
		r.drop(now, stats.DropSocket, p.door, p.server.Addr, 0, err)
		return false
	}
	socket.SetOwner(e)
	p.socket, p.refused = socket, 0
	if headers := p.route.Upstream.Headers; headers != HeadersOff {
		first := headers.preamble(e.Key.Client, p.face.Addr())
		p.preamble = &first
	}
	return true
}

// passUp gives a client's datagram to its server.
func (r *Relay) passUp(now time.Time, e *plainEntry, datagram []byte) {
	p := &e.Value
	p.heard, p.via = now, p.door.via(p.via)
	if p.answered && !p.established {
		r.establishPlain(now, e)
	}
	p.up.Count(datagram)
	r.counters.RelayedUp.Count(datagram)
	r.forwardUp(now, e, datagram)
	r.hasten(now, e)
}

// toServer sends a client's datagram on. lent says that it is in the sockets' own memory.
func (r *Relay) toServer(now time.Time, e *plainEntry, datagram []byte, lent bool) {
	p := &e.Value
	switch {
	case p.preamble != nil:
		r.sendHeaded(now, e, p.socket, p.server.Addr, p.preamble.begin(r.sockets.Buffer()), datagram)
		p.preamble.sent()
	case lent:
		r.sockets.Forward(p.socket, p.server.Addr, datagram)
	default:
		r.sockets.Send(p.socket, p.server.Addr, datagram)
	}
}

// sendHeaded sends a datagram with what b has before it.
func (r *Relay) sendHeaded(now time.Time, e *plainEntry, s netio.Socket, to netip.AddrPort, b, datagram []byte) {
	if len(b)+len(datagram) > netio.MaxDatagram {
		r.drop(now, stats.DropTooLarge, e.Value.door, e.Key.Client, len(datagram), nil)
		return
	}
	r.sockets.Send(s, to, append(b, datagram...))
}

// passDown gives a server's datagram to its client.
func (r *Relay) passDown(now time.Time, e *plainEntry, datagram []byte) {
	p := &e.Value
	p.refused = 0
	if p.preamble != nil {
		datagram = p.preamble.heard(datagram)
	}
	if len(datagram) == 0 {
		r.drop(now, stats.DropEmpty, p.door, p.server.Addr, 0, nil)
		return
	}
	p.server.Heard(now)
	if !p.answered {
		p.answered = true
		if p.route.pool.Answered(p.server, now) {
			r.journal.serverUp(p.route.Upstream.Name, p.server.Addr)
		}
	}
	if !p.established && !r.affords(now, e, len(datagram)) {
		r.drop(now, stats.DropPingBudget, p.door, e.Key.Client, len(datagram), nil)
		return
	}
	p.down.Count(datagram)
	r.counters.RelayedDown.Count(datagram)
	r.hasten(now, e)
	if !p.via.simple() {
		r.sockets.Forward(p.face, p.via.to(e.Key.Client), datagram)
		return
	}
	r.sendHeaded(now, e, p.face, p.via.to(e.Key.Client), p.via.begin(r.sockets.Buffer()), datagram)
}

// affords reports whether n more bytes may go to a client that may be forged. Beyond its own bytes' worth, it is the
// listener's budget for answers to strangers that must allow it.
func (r *Relay) affords(now time.Time, e *plainEntry, n int) bool {
	p, client := &e.Value, e.Key.Client
	sent := onWire(&p.down, client) + uint64(wireSize(client, n))
	return sent <= amplification*onWire(&p.up, client) || p.door.mayAnswer(now, client)
}

func (r *Relay) establishPlain(now time.Time, e *plainEntry) {
	p := &e.Value
	p.established = true
	p.route.Upstream.Transport.probed(p.socket) // what the client searched for it has found
	r.plains.Establish(e)
	r.know(p.door, e.Key.Client)
	r.counters.Established++
	p.tally.Established++
	r.plains.Schedule(e, now, p.expiry(r.settings))
	r.journal.plainEstablished(now, e)
}

// onWire is the size of a client's counted datagrams with the headers of IP and UDP.
func onWire(t *stats.Traffic, client netip.AddrPort) uint64 {
	return t.Bytes + t.Messages*uint64(wireSize(client, 0))
}
