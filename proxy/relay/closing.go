package relay

import (
	"time"

	"tidegate/codec"
	"tidegate/internal/netio"
	"tidegate/internal/policy"
	"tidegate/proxy/stats"
)

// lingerTime bounds how long a session's goodbyes may take. Codecs give up earlier.
const lingerTime = 5 * time.Second

const (
	// maxClosing bounds the closing connections at a time. Beyond it, a goodbye is sent once and not repeated if lost.
	maxClosing = 4096
	// maxLate bounds the payload, in bytes, that a client still gets from a server after its session has left.
	maxLate = 256 << 10
)

// closingConns are a Relay's closing connections, to servers that their sessions have left.
type closingConns struct {
	list []*closingConn
	due  time.Time // when Advance is due for the first of them; zero: never
}

// closingConn is a closing connection, with its own socket.
type closingConn struct {
	conn     codec.Conn
	socket   netio.Socket
	of       *Entry // the session that had it
	preamble *preamble
	until    time.Time
	late     int  // bytes that the client has got through it
	over     bool // Disconnected
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

// plan makes sure that a closing connection is advanced in time.
func (ps *closingConns) plan(x *closingConn) {
	for _, at := range [...]time.Time{x.until, x.conn.NextTimeout()} {
		if !at.IsZero() && (ps.due.IsZero() || at.Before(ps.due)) {
			ps.due = at
		}
	}
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

func (x *closingConn) topic() topic {
	return topicOf(x.of.Value.route, x.of.Key.Client, x.of.Value.serial)
}
