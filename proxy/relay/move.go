package relay

import (
	"time"

	"tidegate/codec"
	"tidegate/internal/policy"
	"tidegate/proxy/stats"
)

const (
	// quiesceTime is how long the old server may take to acknowledge the messages sent to it.
	quiesceTime = 2 * time.Second
	// tickTime is how long a game server may take to answer a message.
	tickTime = 100 * time.Millisecond
	// chatTime is how long a session waits for a pause of a server that sends all the time.
	chatTime = 500 * time.Millisecond
	// closeTime is how long a server may take to acknowledge the goodbye, in addition to the round trip.
	closeTime = 250 * time.Millisecond
)

// quiesce says goodbye to the old server once it has acknowledged and answered all messages. A game answers in its
// next tick, which is later than the acknowledgement of its library.
func (r *Relay) quiesce(now time.Time, e *Entry) {
	s := &e.Value
	l := &s.hold.departure
	stats := s.upstream.Conn.Stats()
	leaveAt := l.limit
	if stats.Queued == 0 {
		if l.acked.IsZero() {
			l.acked, l.limit = now, codec.Earliest(l.limit, now.Add(stats.RTT+chatTime))
		}
		leaveAt = l.acked
		if l.heard.After(leaveAt) {
			leaveAt = l.heard
		}
		leaveAt = codec.Earliest(leaveAt.Add(stats.RTT+tickTime), l.limit)
	}
	if now.Before(leaveAt) {
		s.hold.next = leaveAt
		return
	}
	s.upstream.Conn.Close(now, codec.Goodbye{Reason: codec.Closed})
	s.hold.next = now.Add(stats.RTT + closeTime)
	r.enter(now, e, leaving)
	r.settle(now, e)
}

// depart makes a session that has left its server seek another. The client gets the old server's messages until
// another server has taken the session.
func (r *Relay) depart(now time.Time, e *Entry) {
	s := &e.Value
	r.closing.add(now, e, r)
	r.leaveServer(now, s)
	r.enter(now, e, seeking)
	r.waiting.seek(now, e)
}

// add takes over the socket and the closed connection of a session to its server.
func (ps *closingConns) add(now time.Time, e *Entry, r *Relay) {
	s := &e.Value
	x := &closingConn{
		conn: s.upstream.Conn, socket: s.socket, of: e, preamble: s.preamble,
		until: now.Add(lingerTime), over: s.upstream.Down,
	}
	s.socket = nil // it belongs to x now
	x.flush(now, r)
	if x.over || len(ps.list) == maxClosing {
		x.socket.Close()
		return
	}
	x.socket.SetOwner(x)
	ps.list = append(ps.list, x)
	ps.plan(x)
}

// receive handles a datagram of a server that a session has left.
func (ps *closingConns) receive(now time.Time, x *closingConn, datagram []byte, r *Relay) {
	if err := x.conn.Receive(now, x.preamble.heard(datagram)); err == nil {
		r.drops.has(stats.FateTaken)
	} else {
		l := x.of.Value.listener
		r.drops.add(now, dropped{stats.DropOf(err), l, x.socket.Peer(), len(datagram), err})
	}
	if x.flush(now, r); x.over {
		ps.due = now // its socket is free after this turn
		return
	}
	ps.plan(x)
}

// advance runs due work, and forgets connections that have ended.
func (ps *closingConns) advance(now time.Time, r *Relay) {
	if ps.due.IsZero() || now.Before(ps.due) {
		return
	}
	ps.due = time.Time{}
	left := ps.list[:0]
	for _, x := range ps.list {
		if !x.over {
			x.conn.Advance(now)
			x.flush(now, r)
		}
		if x.over || !now.Before(x.until) {
			x.socket.Close()
			continue
		}
		left = append(left, x)
		ps.plan(x)
	}
	clear(ps.list[len(left):])
	ps.list = left
}

// flush handles the connection's events and writes its datagrams.
func (x *closingConn) flush(now time.Time, r *Relay) {
	r.sockets.sendAll(now, x.conn, x.preamble, x.socket, x.socket.Peer())
	for ev, ok := x.conn.Poll(); ok; ev, ok = x.conn.Poll() {
		switch ev.Kind {
		case codec.Received:
			x.hand(now, r, &ev.Message)
		case codec.Disconnected:
			x.over = true
		}
	}
}

// hand carries a message of the old server to the client, unless another server has taken the session. So the client
// gets it before all messages of the next server.
func (x *closingConn) hand(now time.Time, r *Relay, m *codec.Message) {
	s := &x.of.Value
	x.late += len(m.Payload)
	if s.life != seeking || x.late > maxLate {
		r.drops.count(now, dropped{stats.DropClosing, s.listener, x.of.Key.Client, len(m.Payload), nil})
		return
	}
	r.received(now, x.of, policy.FromUpstream, m)
	r.dirty.mark(x.of)
}
