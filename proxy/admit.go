package proxy

import (
	"bytes"
	"net/netip"
	"time"

	"tidegate/codec"
	"tidegate/netio"
	"tidegate/session"
)

// newcomer takes a datagram from an address without a session. A stream that it makes no session of is closed.
func (r *Relay) newcomer(now time.Time, d *door, s netio.Socket, from netip.AddrPort, datagram []byte) {
	if d.route.Mode == ModeRelay {
		r.greetPlain(now, d, s, from, datagram)
		return
	}
	if !r.greet(now, d, s, from, datagram) && d.stream {
		s.Close()
	}
}

// greet takes the first datagram from an address, and reports whether there is a session now.
func (r *Relay) greet(now time.Time, d *door, s netio.Socket, from netip.AddrPort, datagram []byte) bool {
	if !r.mayEnter(now, d, from, datagram) {
		return false
	}
	w := d.sniff(datagram)
	if w == nil {
		r.drop(now, DropUnknownProtocol, d, from, len(datagram), nil)
		return false
	}
	full := r.table.Room()
	if full != nil || r.draining || d.retired {
		reason, why := codec.ServerFull, DropTableFull
		switch {
		case r.draining, d.retired:
			reason, why = codec.ServerStopped, DropClosing
		case full == session.ErrHalfOpen:
			why = DropHalfOpen
		}
		if reply := w.protocol.Refuse(datagram, r.sockets.Buffer(), reason); len(reply) > 0 {
			r.drop(now, why, d, from, len(datagram), full)
			r.answer(now, d, s, from, datagram, reply)
			return false
		}
	}
	conn, reply, err := w.protocol.Accept(now, from, datagram, r.sockets.Buffer())
	if len(reply) > 0 {
		r.answer(now, d, s, from, datagram, reply)
	}
	switch {
	case err != nil:
		r.drop(now, dropOf(err), d, from, len(datagram), err)
	case conn != nil && r.known.isHere(d, conn):
		r.refuseKnown(now, d, w, s, from, datagram)
	case conn != nil && full == nil && !r.draining && !d.retired:
		return r.open(now, d, w, s, from, conn)
	}
	return false
}

// answer sends a stateless reply. Where it is larger than the datagram, and so worth a forged address, its budget
// must allow it.
func (r *Relay) answer(now time.Time, d *door, s netio.Socket, from netip.AddrPort, datagram, reply []byte) {
	if len(reply) > len(datagram) && d.answers != nil && !d.answers.Allow(now, from.Addr()) {
		r.drop(now, DropPingBudget, d, from, len(datagram), nil)
		return
	}
	r.counters.Clients.Out.count(reply)
	r.sockets.Send(s, from, reply)
}

// sniff finds the protocol of a first datagram, or nil.
func (d *door) sniff(datagram []byte) *way {
	for i := range d.ways {
		if d.ways[i].protocol.Sniff(datagram) {
			return &d.ways[i]
		}
	}
	return nil
}

func (r *Relay) open(now time.Time, d *door, w *way, s netio.Socket, from netip.AddrPort, conn codec.Conn) bool {
	e, err := r.table.Add(session.Key{Listener: d.index, Client: from}, pair{
		door:     d,
		route:    d.route,
		bridge:   w.bridge,
		face:     s,
		protocol: w.protocol,
		client:   side{conn: conn},
		serial:   r.serials.next(),
		tally:    w.tally,
		opened:   now,
		heard:    now,
		expires:  now.Add(r.settings.HandshakeTimeout),
	})
	if err != nil {
		return false
	}
	d.sessions++
	r.known.add(e)
	r.counters.Opened++
	w.tally.Opened++
	r.settle(now, e)
	return true
}

// asked answers a client that wants to join.
func (r *Relay) asked(now time.Time, e *entry, ev *codec.Event) {
	p := &e.Value
	p.hello = codec.Hello{Data: bytes.Clone(ev.Payload), Pad: ev.Pad, Identity: ev.Identity}
	if p.hello.Identity == 0 {
		p.hello.Identity = r.identities.next()
	}
	if p.route.Admit == UpstreamFirst {
		r.dial(now, e)
		return
	}
	r.admit(now, e, 0)
}

// admit lets the client in, as the client ID the upstream gave, or as one of ours.
func (r *Relay) admit(now time.Time, e *entry, id uint16) {
	p := &e.Value
	if !p.bridge.keepsClientID {
		var ok bool
		if id, ok = p.route.ids.take(); !ok {
			r.end(now, e, blameProxy, codec.Goodbye{Reason: codec.ServerFull})
			return
		}
		p.ownsID = true
	}
	p.id, p.admitted = id, true
	p.client.conn.Admit(now, id)
}

// dial opens the upstream side. Where no server can be had, the client is told.
func (r *Relay) dial(now time.Time, e *entry) {
	p := &e.Value
	p.tries++
	p.server = p.route.pool.Pick(now, e.Key.Client.Addr())
	if p.server == nil {
		r.end(now, e, blameUpstream, codec.Goodbye{Reason: codec.NoConnection})
		return
	}
	socket, err := p.route.Upstream.Transport.dial(r.sockets, p.server.Addr)
	if err != nil {
		r.drop(now, DropSocket, p.door, p.server.Addr, 0, err)
		r.hangUp(p)
		r.end(now, e, blameUpstream, codec.Goodbye{Reason: codec.NoConnection})
		return
	}
	socket.SetOwner(e)
	p.socket = socket
	p.refused = 0
	// A share of the client's own patience, so that some is left to hear of it, or for the next server.
	p.dialBy = now.Add(r.settings.HandshakeTimeout / time.Duration(1+p.route.mostTries()))
	r.toUpstreams.leave(&p.upstream)
	hello := p.hello
	hello.From = socket.Addr()
	p.upstream = side{conn: p.route.Upstream.Protocol.Dial(now, p.server.Addr, hello)}
}

// retry dials another server after one did not answer, and reports whether it could.
func (r *Relay) retry(now time.Time, e *entry, why codec.Reason) bool {
	p := &e.Value
	p.route.pool.Failed(p.server, now, why.String())
	if p.ending || !p.client.live() || p.tries >= p.route.mostTries() {
		return false
	}
	r.hangUp(p)
	r.dial(now, e)
	return true
}

// loseFaith gives up a server that has not said anything for its share of the time.
func (r *Relay) loseFaith(now time.Time, e *entry) {
	p := &e.Value
	if p.dialBy.IsZero() || now.Before(p.dialBy) {
		return
	}
	p.dialBy = time.Time{}
	if p.upstream.live() && !p.upstream.up && p.upstream.conn.Stats().Received == 0 {
		r.abandonUpstream(now, e)
	}
}

// hangUp leaves the server and its socket.
func (r *Relay) hangUp(p *pair) {
	if p.server != nil {
		p.route.pool.Release(p.server)
	}
	if p.socket != nil {
		p.socket.Close()
	}
	p.server, p.socket = nil, nil
}

// establish notes that a side has connected.
func (r *Relay) establish(now time.Time, e *entry) {
	p := &e.Value
	if !p.client.up || !p.upstream.up || p.ending {
		return
	}
	r.table.Establish(e)
	r.counters.Established++
	if !p.established {
		p.established = true
		p.tally.Established++
	}
	p.heard = now
	r.journal.established(now, e)
}
