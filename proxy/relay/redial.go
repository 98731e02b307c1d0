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
	s := &e.Value
	if s.upstream.up || !s.upstream.Live() || s.life.isEnding() {
		return
	}
	conn, ok := s.upstream.Conn.(codec.Redialer)
	if !ok {
		return
	}
	switch conn.Stranded() {
	case codec.Unanswered:
		ok = r.askFromElsewhere(now, e)
	case codec.TurnedAway:
		r.askFromElsewhere(now, e)
	case codec.KnownByEarlier:
		ok = s.goBack(e)
	default:
		return
	}
	if ok {
		conn.Redial(now, s.socket)
		r.dirty.mark(e)
	}
}

// askFromElsewhere gives a session another socket to its server, and reports whether it could. A session that uses
// the client's own address has no other address.
func (r *Relay) askFromElsewhere(now time.Time, e *Entry) bool {
	s := &e.Value
	if s.earlier == nil {
		s.earlier = new(earlier)
	}
	was := s.earlier
	if s.route.Upstream.Transport.Transparent || was.back || len(was.sockets) == mostRedials {
		return false
	}
	socket, err := s.route.Upstream.dial(r.sockets.Sockets, s.path, s.server.Addr, e.Key.Client)
	if err != nil {
		r.drops.count(now, dropped{stats.DropSocket, s.listener, s.server.Addr, 0, err})
		return false
	}
	if len(was.sockets) == 0 {
		was.preamble = s.preamble
	}
	was.sockets = append(was.sockets, s.socket)
	s.socket.SetOwner(nil)
	s.preamble = newPreamble(s.route.Upstream.Headers, e.Key.Client, s.face.Addr())
	s.take(e, socket)
	r.counters.Redialed++
	return true
}

// goBack gives a session its first socket again, if it has one. The server knows the session by that socket's
// address.
func (s *link) goBack(e *Entry) bool {
	was := s.earlier
	if was == nil || len(was.sockets) == 0 || was.back {
		return false
	}
	s.socket.Close()
	s.take(e, was.sockets[0])
	s.preamble, was.sockets, was.back = was.preamble, was.sockets[1:], true
	return true
}

func (s *link) take(e *Entry, socket netio.Socket) {
	socket.SetOwner(e)
	s.socket, s.refused = socket, 0
}
