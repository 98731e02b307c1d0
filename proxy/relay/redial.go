package relay

import (
	"time"

	"tidegate/codec"
	"tidegate/internal/netio"
	"tidegate/proxy/stats"
)

// mostRedials bounds how many times a session asks one server again from another address.
const mostRedials = 2

// redial asks a server again that no longer seems to answer the session's address.
func (r *Relay) redial(now time.Time, e *Entry) {
	p := &e.Value
	if p.upstream.up || !p.upstream.Live() || p.isEnding() {
		return
	}
	conn, ok := p.upstream.Conn.(codec.Redialer)
	if !ok {
		return
	}
	switch conn.Stranded() {
	case codec.Unanswered:
		ok = r.askFromElsewhere(now, e)
	case codec.TurnedAway:
		r.askFromElsewhere(now, e)
	case codec.KnownByEarlier:
		ok = p.goBack(e)
	default:
		return
	}
	if ok {
		conn.Redial(now, p.socket)
		r.dirty.mark(e)
	}
}

// askFromElsewhere gives a session another socket to its server, and reports whether it could. A session that uses
// the client's own address has no other address.
func (r *Relay) askFromElsewhere(now time.Time, e *Entry) bool {
	p := &e.Value
	if p.earlier == nil {
		p.earlier = new(earlier)
	}
	was := p.earlier
	if p.route.Upstream.Transport.Transparent || was.back || len(was.sockets) == mostRedials {
		return false
	}
	socket, err := p.route.Upstream.dial(r.sockets.Sockets, p.path, p.server.Addr, e.Key.Client)
	if err != nil {
		r.drops.count(now, dropped{stats.DropSocket, p.listener, p.server.Addr, 0, err})
		return false
	}
	if len(was.sockets) == 0 {
		was.preamble = p.preamble
	}
	was.sockets = append(was.sockets, p.socket)
	p.socket.SetOwner(nil)
	p.preamble = p.route.Upstream.Headers.preamble(e.Key.Client, p.face.Addr())
	p.take(e, socket)
	r.counters.Redialed++
	return true
}

// goBack gives a session its first socket again, if it has one. The server knows the session by that socket's
// address.
func (p *session) goBack(e *Entry) bool {
	was := p.earlier
	if was == nil || len(was.sockets) == 0 || was.back {
		return false
	}
	p.socket.Close()
	p.take(e, was.sockets[0])
	p.preamble, was.sockets, was.back = was.preamble, was.sockets[1:], true
	return true
}

func (p *session) take(e *Entry, socket netio.Socket) {
	socket.SetOwner(e)
	p.socket, p.refused = socket, 0
}
