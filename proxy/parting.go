package proxy

import (
	"net/netip"
	"time"

	"tidegate/codec"
	"tidegate/internal/netio"
)

// maxPartings is how many servers' sessions may be saying goodbye at a time. Further goodbyes are said once, and not again
// if they are lost.
const maxPartings = 4096

// partings are connections to servers whose sessions have gone on elsewhere.
type partings struct {
	list []*parting
	due  time.Time // when the first of them wants to be advanced; zero: never
}

// parting is one of them, with its own socket.
type parting struct {
	conn     codec.Conn
	socket   netio.Socket
	serial   SessionID // whose it was
	client   netip.AddrPort
	route    *route
	preamble preamble
	until    time.Time
	over     bool // Disconnected
}

// add takes over the connection of a session to its server, which has been closed, and its socket.
func (ps *partings) add(now time.Time, e *entry, sockets Sockets) {
	p := &e.Value
	x := &parting{
		conn: p.upstream.conn, socket: p.socket, serial: p.serial, client: e.Key.Client, route: p.route,
		preamble: p.preamble, until: now.Add(lingerTime),
	}
	x.flush(now, sockets)
	if x.over || len(ps.list) == maxPartings {
		x.socket.Close()
		return
	}
	x.socket.SetOwner(x)
	ps.list = append(ps.list, x)
	ps.plan(x)
}

// receive takes what a server that was left says.
func (ps *partings) receive(now time.Time, x *parting, datagram []byte, sockets Sockets) {
	_ = x.conn.Receive(now, x.preamble.heard(datagram)) // nobody is interested any more
	x.flush(now, sockets)
	ps.plan(x)
}

// advance runs what is due, and forgets what is over.
func (ps *partings) advance(now time.Time, sockets Sockets) {
	if ps.due.IsZero() || now.Before(ps.due) {
		return
	}
	ps.due = time.Time{}
	left := ps.list[:0]
	for _, x := range ps.list {
		if !x.over {
			x.conn.Advance(now)
			x.flush(now, sockets)
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

// plan sees to it that a parting is advanced in time.
func (ps *partings) plan(x *parting) {
	for _, at := range [...]time.Time{x.until, x.conn.NextTimeout()} {
		if !at.IsZero() && (ps.due.IsZero() || at.Before(ps.due)) {
			ps.due = at
		}
	}
}

// flush takes the connection's events and writes what it has to say.
func (x *parting) flush(now time.Time, sockets Sockets) {
	for {
		b, ok := x.conn.Transmit(now, x.preamble.begin(sockets.Buffer()))
		if !ok {
			break
		}
		x.preamble.sent()
		sockets.Send(x.socket, x.socket.Peer(), b)
	}
	for ev, ok := x.conn.Poll(); ok; ev, ok = x.conn.Poll() {
		x.over = x.over || ev.Kind == codec.Disconnected
	}
}
