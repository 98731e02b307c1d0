package rtype

import (
	"time"

	"tidegate/codec"
)

// decideTimeout is how long a client that waits for Admit may be silent: one that waits repeats its Hello.
const decideTimeout = 10 * time.Second

// server is the side of a connection that faces a client.
type server struct {
	link
	opener   []byte // the document's instruction that opened the session, until it is reported
	lobby    lobby  // of the last game
	secret   secret
	rate     rate
	pulse    pulse
	mirror   mirror
	gone     gone
	replay   replay
	restored time.Time // when the client was last told all from the beginning
	pingDue  bool
	byeDue   bool
}

func accept(o *Options, now time.Time, f format, opener []byte, secret secret) *server {
	s := &server{
		link:   newLink(o, now),
		opener: opener,
		secret: secret,
		rate:   rate{perSecond: o.MaxRate},
		pulse:  pulse{interval: o.PingInterval, timeout: o.PongTimeout},
		mirror: mirror{max: o.MaxWorld},
	}
	s.format, s.mask = f, secret.mask
	s.stats.Received = 1
	s.events.Push(codec.Event{Kind: codec.Asked})
	return s
}

// Admit makes the session. What was sent so far goes out.
func (s *server) Admit(now time.Time, _ uint16) {
	if s.state != opening {
		return
	}
	s.state, s.heard, s.restored = connected, now, now
	switch {
	case s.format.isFinal() && s.secret.awaits(0):
		s.tellNames(now) // those that nobody has
	case !s.format.isFinal() && !s.mayBeLast():
		s.events.Push(codec.Event{Kind: codec.Connected})
	}
	if s.opener != nil && !s.mayBeLast() {
		s.takeOpener()
	}
	if !s.format.document {
		s.pulse.start(now)
	}
	s.scheduleRefresh(now)
}

// Advance runs what is due: time-outs, pings and replays.
func (s *server) Advance(now time.Time) {
	if s.state == closed {
		return
	}
	if !now.Before(s.deadline()) {
		s.out.drop()
		s.Close(now, codec.Goodbye{Reason: codec.TimedOut})
		return
	}
	if s.pulse.beat(now) {
		s.pingDue = true
	}
	s.lobbyDue(now)
	if next := s.replay.next; !next.IsZero() && !now.Before(next) {
		s.replayPortion(now)
	}
}

// deadline is when the client's silence ends the connection.
func (s *server) deadline() time.Time {
	switch {
	case s.state == opening:
		return s.heard.Add(decideTimeout)
	case s.format.isFinal() && !s.lobby.started:
		return codec.Earliest(s.heard.Add(lobbyTimeout), s.pulse.deadline())
	}
	return codec.Earliest(s.heard.Add(s.options.IdleTimeout), s.pulse.deadline())
}

// NextTimeout is when Advance has something to do, or Poll a receipt.
func (s *server) NextTimeout() time.Time {
	if s.state == closed {
		return time.Time{}
	}
	next := codec.Earliest(s.deadline(), codec.Earliest(s.pulse.next, s.replay.next))
	next = codec.Earliest(next, s.lobby.next)
	if s.events.Len() > 0 {
		next = codec.Earliest(next, s.answerAt)
	}
	return next
}

// Transmit appends the next datagram to b.
func (s *server) Transmit(_ time.Time, b []byte) ([]byte, bool) {
	if s.state == opening {
		return b, false
	}
	b, ok := s.out.next(b)
	switch {
	case !ok && s.pingDue:
		s.pingDue = false
		b, ok = append(b, ping...), true
	case !ok && s.byeDue:
		s.byeDue = false
		b, ok = append(b, goodbye...), true
	}
	if ok {
		s.stats.Sent++
	}
	return b, ok
}

// Close says goodbye, for which the document has no word. The reason and its data are not of this protocol.
func (s *server) Close(_ time.Time, why codec.Goodbye) {
	if s.state == closed {
		return
	}
	s.pingDue, s.byeDue = false, !s.format.document
	s.finish(why.Reason)
}

// Proved reports whether the client has said back what only its address was told.
func (s *server) Proved() bool { return s.secret.proved }

// Stats are the connection's figures so far.
func (s *server) Stats() codec.Stats {
	stats := s.link.Stats()
	stats.RTT = s.pulse.rtt
	return stats
}
