package relay

import (
	"cmp"
	"errors"
	"net/netip"
	"time"

	"tidegate/codec"
	"tidegate/codec/nethernet"
	"tidegate/internal/joining"
	"tidegate/internal/netio"
	"tidegate/internal/policy"
	"tidegate/internal/stray"
	"tidegate/proxy/stats"
	"tidegate/session"
)

// openEdge handles a STUN message from an address without a session.
func (r *Relay) openEdge(now time.Time, l *listener, entry *protocolEntry, s netio.Socket, from netip.AddrPort,
	datagram []byte) {
	if l.joins == nil {
		r.drops.add(now, dropped{stats.DropUnknownProtocol, l, from, len(datagram), errNoJoin})
		return
	}
	t, err := l.joins.verify(now, datagram)
	if errors.Is(err, errNoJoin) && r.arrivals.any() {
		asks := func(a *Arrival) bool { return l.joins.asks(&a.session, from) }
		key := arrivalKey{l.name, netip.AddrPort{}, string(l.joins.binding.Username)}
		if e := r.takeArrival(now, l, s, key, asks); e != nil {
			r.fromEdge(now, e, s, from, datagram)
			return
		}
	}
	if err != nil {
		r.drops.add(now, dropped{edgeDrop(err), l, from, len(datagram), err})
		return
	}
	if t.Peer != nil && r.replaced && l.joins.sessions[t] == nil { // it waits for the successor, and checks again
		r.drops.add(now, dropped{stats.DropClosing, l, from, len(datagram), nil})
		return
	}
	if !r.mayAsk(now, l, from, len(datagram), true) {
		return
	}
	owner, ok := l.joins.table.Admit(now, t, from, r.shard.index)
	switch e := l.joins.sessions[t]; {
	case !ok:
		r.drops.add(now, dropped{stats.DropUnknownProtocol, l, from, len(datagram), errNoJoin})
	case owner != r.shard.index && owner < r.shard.of:
		r.giveAway(now, owner, l, s, from, datagram)
	case e != nil:
		r.fromEdge(now, e, s, from, datagram)
	default:
		r.beginEdge(now, l, entry, s, from, datagram, t)
	}
}

// edgeDrop returns the reason to drop a STUN message.
func edgeDrop(err error) stats.Drop {
	switch {
	case errors.Is(err, codec.ErrMalformed):
		return stats.DropMalformed
	case errors.Is(err, nethernet.ErrBusy):
		return stats.DropHalfOpen
	}
	return stats.DropUnknownProtocol
}

// beginEdge makes the session of a join whose player has come.
func (r *Relay) beginEdge(now time.Time, l *listener, entry *protocolEntry, s netio.Socket, from netip.AddrPort,
	datagram []byte, t *joining.Ticket) {
	err := r.table.room(now, from, true)
	var e *Entry
	switch isClosed := r.draining || l.retired; {
	case err != nil || isClosed:
	case l.route.Mode == policy.ModeTerminate || t.Peer != nil:
		if err = r.beginStacked(now, l, entry, s, from, datagram, t); err == nil {
			return
		}
	default:
		e, err = r.add(now, l, entry, s, from, nil)
	}
	if e == nil {
		_, why := l.whyFull(r.draining, err)
		switch {
		case err == nil:
			err = codec.ErrClosed
		case why == stats.DropTableFull && err != session.ErrFull:
			why = edgeDrop(err)
		}
		l.joins.table.End(now, t, joining.Failed, err.Error())
		r.drops.add(now, dropped{why, l, from, len(datagram), err})
		return
	}
	session := &e.Value
	session.edge = &edge{ticket: t}
	l.joins.sessions[t] = e
	r.sockets.tap.joined(e, l, t)
	if !r.dialEdge(now, e) {
		r.endRelayed(now, e, stats.ByUpstream, codec.NoConnection)
		return
	}
	r.table.Schedule(e, now, session.expiry(r.settings))
	r.fromEdge(now, e, s, from, datagram)
}

// dialEdge opens the session's one socket to its server: to the address that the server's answer has named.
func (r *Relay) dialEdge(now time.Time, e *Entry) bool {
	s := &e.Value
	t, u, target := s.edge.ticket, s.route.Upstream, s.edge.ticket.Told().Target
	s.server = s.route.pool.Rejoin(t.Server)
	s.listener.joins.table.Seated(t)
	socket, err := u.dial(r.sockets.Sockets, nil, target, e.Key.Client) // the bounds of RakNet servers are not for it
	if err != nil {
		r.drops.add(now, dropped{stats.DropSocket, s.listener, target, 0, err})
		return false
	}
	socket.SetOwner(e)
	s.socket, s.gate = socket, codec.GateOpen
	return true
}

// fromEdge handles a datagram of a session's client, or of a stranger that claims to be it.
func (r *Relay) fromEdge(now time.Time, e *Entry, sock netio.Socket, from netip.AddrPort, datagram []byte) {
	s := &e.Value
	l, g := s.listener, s.edge
	judge := r.guard.MayRelay
	if clientStackOf(s) != nil {
		judge = r.guard.MayPass
	}
	if !r.drops.passes(now, l, from, len(datagram), judge(now, &s.meter, len(datagram))) {
		return
	}
	if s.shortcut != nil && from != g.sources.Active() {
		r.offload.review(now, e) // the kernel knows how long the active address has been silent
	}
	err := l.joins.admit(now, e, from, datagram)
	if errors.Is(err, errOtherJoin) && s.since(now)-s.heard >= edgeQuiet {
		if clientStackOf(s) != nil { // its server gets a goodbye, and the client asks again meanwhile
			r.abandonClient(now, e)
			return
		}
		r.endRelayed(now, e, stats.ByClient, codec.Closed)
		if entry := l.entryOf(NetherNet); entry != nil {
			r.openEdge(now, l, entry, sock, from, datagram)
		}
		return
	}
	if err != nil {
		r.drops.add(now, dropped{edgeDrop(err), l, from, len(datagram), err})
		return
	}
	s.hears(from, sock)
	if closes := nethernet.MayClose(datagram); closes != g.closes {
		g.closes = closes
		r.table.Schedule(e, now, now.Add(edgeClose))
	}
	if clientStackOf(s) != nil {
		r.takeStacked(now, e, sock, from, datagram)
		return
	}
	r.passUp(now, e, datagram)
}

// hears notes where a source's datagram came in. A check is answered from the address that it has reached.
func (s *link) hears(from netip.AddrPort, sock netio.Socket) {
	g := s.edge
	if home := s.home(); g.faces == nil && sock != home {
		g.faces = make(map[netip.AddrPort]netio.Socket)
		for _, at := range g.sources.Append(nil) {
			g.faces[at] = home
		}
	}
	if g.faces != nil {
		if len(g.faces) > 2*nethernet.MaxSources {
			clear(g.faces)
		}
		g.faces[from] = sock
	}
	if g.sources.Active() == from {
		s.face = sock
	}
}

// faceTo returns where the session's client is answered at one of its addresses.
func (s *link) faceTo(to netip.AddrPort) netio.Socket {
	if s.edge != nil && s.home() == s.face {
		if face := s.edge.faces[to]; face != nil {
			return face
		}
	}
	return s.face
}

// joinEnding says how the join of a session ends.
func (s *link) joinEnding(cause string) (joining.Stage, string) {
	switch g := s.edge; {
	case s.isRelayed() && !s.answered:
		return joining.Failed, "the server has answered no datagram at " + g.ticket.Told().Target.String()
	case clientStackOf(s).isOpening():
		return joining.Failed, "the connection did not open: " + cmp.Or(cause, s.why.String())
	case g.why == codec.TimedOut && g.closes:
		return joining.Ended, "the client has closed the connection"
	case g.why == codec.TimedOut:
		return joining.Lost, "the client fell silent"
	case g.why == codec.NoConnection:
		return joining.Ended, "the server cannot be reached"
	}
	return joining.Ended, "the session is over"
}

// atEdge returns the session of a NetherNet client's address, or nil.
func (r *Relay) atEdge(now time.Time, l *listener, from netip.AddrPort) *Entry {
	if e := r.table.Get(now, session.Key{Listener: l.index, Client: from}); e != nil && e.Value.edge != nil {
		return e
	}
	return l.find(from)
}

// otherwise returns the session that an address belongs to, although the table does not have it by that address: a
// NetherNet client's, or one that comes from another Server.
func (r *Relay) otherwise(now time.Time, l *listener, s netio.Socket, from netip.AddrPort) *Entry {
	if e := l.find(from); e != nil {
		return e
	}
	return r.arrived(now, l, s, from)
}

// giveAway hands a datagram over to the loop of its session.
func (r *Relay) giveAway(now time.Time, loop int, l *listener, s netio.Socket, from netip.AddrPort, datagram []byte) {
	if len(l.joins.elsewhere) >= maxElsewhere {
		clear(l.joins.elsewhere)
	}
	l.joins.elsewhere[from] = loop
	d := handedOver{from: r.shard.index, Datagram: stray.Datagram{
		Listener: l.id, Client: from, Bytes: append([]byte(nil), datagram...),
	}}
	if netio.ListenerOf(s) != s {
		d.Local = s.Addr().Addr()
	}
	r.handOver(now, loop, l, d)
}

// takeHanded reads the datagrams that other loops have handed over. One of an address without a session here goes
// back: the session is over, or its client has left the address, and another client may have it.
func (r *Relay) takeHanded(now time.Time) {
	defer r.takeReady(now)
	for _, d := range r.handed.take(r.shard.index) {
		l := listenerWith(d.Listener, r.listeners)
		if l == nil || l.joins == nil {
			continue
		}
		home := l.faceAt(d.Local)
		r.drops.fate = stats.FateStray // the loop that received the datagram has counted it
		if d.back {
			delete(l.joins.elsewhere, d.Client)
			r.judge(now, l, home, d.Client, d.Bytes, false)
		} else if e := r.atEdge(now, l, d.Client); e != nil {
			r.fromEdge(now, e, home, d.Client, d.Bytes)
		} else if entry := l.entryOf(NetherNet); entry != nil && nethernet.IsSTUN(d.Bytes) {
			r.openEdge(now, l, entry, home, d.Client, d.Bytes)
		} else {
			loop := d.from
			d.from, d.back = r.shard.index, true
			r.handOver(now, loop, l, d)
		}
	}
}

// handOver lets another loop take a datagram in its next turn.
func (r *Relay) handOver(now time.Time, loop int, l *listener, d handedOver) {
	if !r.handed.put(loop, d) {
		r.drops.add(now, dropped{stats.DropOverload, l, d.Client, len(d.Bytes), nil})
		return
	}
	r.drops.has(stats.FateTaken)
	if r.pools.Wake != nil {
		r.pools.Wake(loop)
	}
}
