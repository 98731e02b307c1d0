package proxy

import (
	"time"

	"tidegate/codec"
	"tidegate/internal/netio"
	"tidegate/proxy/stats"
)

const (
	// maxClosing is how many connections to servers may be closing at a time. Further goodbyes are said once, and not
	// again if they are lost.
	maxClosing = 4096
	// maxLate bounds the payload, in bytes, that a client still gets from a server that its session has left.
	maxLate = 256 << 10
)

// closingConns are closing connections: to servers whose sessions have left them for others.
type closingConns struct {
	list []*closingConn
	due  time.Time // when the first of them wants to be advanced; zero: never
}

// closingConn is a closing connection, with its own socket.
type closingConn struct {
	conn     codec.Conn
	socket   netio.Socket
	of       *entry // the session that it belonged to
	preamble *preamble
	until    time.Time
	late     int  // bytes that the client has got from it
	over     bool // Disconnected
}

// add takes over the connection of a session to its server, which has been closed, and its socket.
func (ps *closingConns) add(now time.Time, e *entry, r *Relay) {
	p := &e.Value
	x := &closingConn{
		conn: p.upstream.Conn, socket: p.socket, of: e, preamble: p.preamble,
		until: now.Add(lingerTime), over: p.upstream.Down,
	}
	x.flush(now, r)
	if x.over || len(ps.list) == maxClosing {
		x.socket.Close()
		return
	}
	x.socket.SetOwner(x)
	ps.list = append(ps.list, x)
	ps.plan(x)
}

// receive takes what a server that was left says.
func (ps *closingConns) receive(now time.Time, x *closingConn, datagram []byte, r *Relay) {
	_ = x.conn.Receive(now, x.preamble.heard(datagram)) // a bad datagram is of no interest any more
	x.flush(now, r)
	ps.plan(x)
}

// advance runs what is due, and forgets what is over.
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

// plan sees to it that a closing connection is advanced in time.
func (ps *closingConns) plan(x *closingConn) {
	for _, at := range [...]time.Time{x.until, x.conn.NextTimeout()} {
		if !at.IsZero() && (ps.due.IsZero() || at.Before(ps.due)) {
			ps.due = at
		}
	}
}

// flush takes the connection's events and writes what it has to say.
func (x *closingConn) flush(now time.Time, r *Relay) {
	for {
		b, ok := x.conn.Transmit(now, x.preamble.begin(r.sockets.Buffer()))
		if !ok {
			break
		}
		x.preamble.sent()
		r.sockets.Send(x.socket, x.socket.Peer(), b)
	}
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
	p := &x.of.Value
	x.late += len(m.Payload)
	if p.hold == nil || p.hold.phase != seeking || x.late > maxLate {
		r.drops.add(now, dropped{stats.DropClosing, p.listener, x.of.Key.Client, len(m.Payload), nil})
		return
	}
	r.fromServer(now, x.of, m)
	r.dirty.mark(x.of)
}
