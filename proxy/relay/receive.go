package relay

import (
	"errors"
	"net/netip"
	"time"

	"tidegate/codec"
	"tidegate/internal/netio"
	"tidegate/proxy/stats"
	"tidegate/session"
)

// Receive handles a datagram that came in by one of the Relay's sockets.
func (r *Relay) Receive(now time.Time, s netio.Socket, from netip.AddrPort, datagram []byte) {
	r.fetch()
	if r.sockets.tap != nil {
		r.sockets.tap.received(now, s, from, datagram)
	}
	side := &r.counters.Upstreams
	r.drops.fate = stats.FateStray
	switch owner := s.Owner().(type) {
	case *listener:
		side = &r.counters.Clients
		r.fromClient(now, owner, s, from, datagram)
	case *Entry:
		switch {
		case owner.Value.isRelayed():
			r.passDown(now, owner, datagram)
		case !r.table.isWhole(now, owner):
			r.drops.add(now, dropped{stats.DropClosing, owner.Value.listener, from, len(datagram), codec.ErrClosed})
		default:
			r.fromUpstream(now, owner, datagram)
		}
	case *closingConn:
		r.closing.receive(now, owner, datagram, r)
	case *checked:
		r.drops.has(stats.FateTaken)
		owner.heard(now, r, datagram)
	case *querier:
		owner.answered(now, r, datagram)
	case *pinged:
		owner.answered(now, r, datagram)
	}
	side.Receive(datagram, r.drops.fate)
}

func (r *Relay) fromClient(now time.Time, l *listener, s netio.Socket, from netip.AddrPort, datagram []byte) {
	r.backlog.Count(now)
	if l.proxies != nil {
		client, rest, fault := l.proxies.unwrap(from, datagram)
		if !r.drops.passes(now, l, from, len(datagram), fault) {
			return
		}
		from, datagram = client, rest
	}
	sheds := !l.stream && r.backlog.Sheds() // a client does not repeat a frame of a stream
	switch {
	case len(datagram) == 0:
		r.drops.add(now, dropped{stats.DropEmpty, l, from, 0, nil})
	case from.Port() == 0:
		r.drops.add(now, dropped{stats.DropSourcePort, l, from, len(datagram), nil})
	case sheds && l.first.Opens(datagram[0]): // it counts as a stranger's, also from a client's address
		r.drops.shed(now, &r.backlog, l, from, len(datagram))
	default:
		r.judge(now, l, s, from, datagram, sheds)
	}
}

// judge handles a datagram with its true sender. sheds says that the loop is behind.
func (r *Relay) judge(now time.Time, l *listener, s netio.Socket, from netip.AddrPort, datagram []byte, sheds bool) {
	e := r.table.Get(now, session.Key{Listener: l.index, Client: from})
	if e == nil && !l.stream {
		e = r.otherwise(now, l, s, from)
	}
	switch {
	case e == nil && sheds:
		r.drops.shed(now, &r.backlog, l, from, len(datagram))
	case e != nil && e.Value.edge != nil:
		r.fromEdge(now, e, s, from, datagram)
	case e == nil && l.isElsewhere(from):
		r.giveAway(now, l.joins.elsewhere[from], l, s, from, datagram)
	case e == nil && r.ways.players.passOn(l, s, from, r.shard.index, datagram):
		r.drops.has(stats.FateTaken)
	case e == nil:
		r.newcomer(now, l, s, from, datagram)
	case !e.Value.isRelayed():
		r.fromTerminated(now, e, s, datagram)
	case r.drops.passes(now, l, from, len(datagram), r.guard.MayRelay(now, &e.Value.meter, len(datagram))):
		r.passUp(now, e, datagram)
	}
}

// fromTerminated handles a datagram of a terminated session's client.
func (r *Relay) fromTerminated(now time.Time, e *Entry, s netio.Socket, datagram []byte) {
	session, l, from, connected := &e.Value, e.Value.listener, e.Key.Client, e.Value.client.up
	if l.stream && session.face != s {
		// The client's last session is still saying goodbye to the upstream. The client may connect again.
		r.drops.add(now, dropped{stats.DropClosing, l, from, len(datagram), nil})
		s.Close()
		return
	}
	if session.client.Down { // the session is ending
		r.drops.add(now, dropped{stats.DropUnexpected, l, from, len(datagram), codec.ErrClosed})
		return
	}
	if !r.drops.passes(now, l, from, len(datagram), r.guard.MayPass(now, &session.meter, len(datagram))) {
		return
	}
	if r.sockets.answerWord(now, l, s, from, datagram) { // a player who comes back asks before it connects again
		return
	}
	session.via = l.via(session.via)
	session.trust.Owe(from, len(datagram))
	r.backlog.Excuse(now, session.client.Conn)
	err := session.client.Conn.Receive(now, datagram)
	if err == nil {
		session.heard = session.since(now) // a refused datagram may be forged, and is no sign of life
		r.follow(e)
		r.drops.has(stats.FateTaken)
	} else {
		r.drops.add(now, dropped{stats.DropOf(err), l, from, len(datagram), err})
	}
	r.settleSides(now, e, clientSide)
	if err == nil {
		r.accepted(now, e, len(datagram))
		if r.table.reviewTrust(e, &r.known, connected) && session.trust.Proof != codec.ProvedAccept && r.shares(session) {
			r.guard.SpentLate(from.Addr(), len(datagram))
		}
	}
}

func (r *Relay) fromUpstream(now time.Time, e *Entry, datagram []byte) {
	s := &e.Value
	s.refused, datagram = 0, s.preamble.heard(datagram)
	if !s.upstream.Live() {
		r.drops.add(now, dropped{stats.DropUnexpected, s.listener, s.server.Addr, len(datagram), codec.ErrClosed})
		return
	}
	err, drop, refusals := error(nil), stats.DropEmpty, s.path.refusals(s)
	if len(datagram) > 0 {
		err = s.upstream.Conn.Receive(now, datagram)
		drop = stats.DropOf(err)
	}
	if err != nil || len(datagram) == 0 {
		r.drops.add(now, dropped{drop, s.listener, s.server.Addr, len(datagram), err})
	} else {
		s.path.hear(now, datagram, s.path.refusals(s) > refusals)
		r.drops.has(stats.FateTaken)
		if s.upstream.up {
			s.server.Heard(now)
		}
	}
	r.settleSides(now, e, serverSide)
	r.redial(now, e)
}

// Failed handles the news that the peer of a dialled socket cannot be reached, or that a stream has ended.
func (r *Relay) Failed(now time.Time, s netio.Socket, err error) {
	switch owner := s.Owner().(type) {
	case *listener:
		// A datagram socket made by part only reports that one of our datagrams did not arrive.
		e := r.table.Get(now, session.Key{Listener: owner.index, Client: s.Peer()})
		if owner.stream && e != nil && !e.Value.isRelayed() && e.Value.face == s {
			r.abandonClient(now, e)
		}
	case *Entry:
		if owner.Value.isRelayed() {
			r.refusedRelayed(now, owner, err)
		} else if r.table.isWhole(now, owner) {
			refused(now, r, owner, err)
		}
	case *checked:
		if owner.checker.upstream.Transport.Stream || !errors.Is(err, netio.ErrUnreachable) {
			owner.refused(now, r)
		}
	}
}

// InputDrained notes that nothing is left to read.
func (r *Relay) InputDrained() {
	r.backlog.Drained()
	r.known.gate.Drained()
}
