package relay

import (
	"net/netip"
	"slices"
	"time"

	"tidegate/codec"
	"tidegate/internal/netio"
	"tidegate/internal/policy"
	"tidegate/internal/upstream"
	"tidegate/proxy/stats"
)

// slowest bounds the time between checks of a server that is down, in intervals. The time doubles with each failed
// check.
const slowest = 8

// closeCheckers ends all checks.
func closeCheckers(now time.Time, r *Relay) {
	for _, c := range r.checkers {
		for _, s := range c.servers {
			s.hangUp(now, r)
		}
	}
	r.checkers = nil
}

// list updates servers to the Pool's present list.
func (c *checker) list(now time.Time, r *Relay) {
	listed := c.pool.Servers()
	if slices.Equal(listed, c.listed) {
		return
	}
	old := c.servers
	c.listed, c.servers = listed, nil
	for _, server := range listed {
		i := slices.IndexFunc(old, func(s *checked) bool { return s.server == server })
		if i < 0 {
			c.servers = append(c.servers, &checked{checker: c, server: server, next: now})
			continue
		}
		c.servers = append(c.servers, old[i])
		old = slices.Delete(old, i, i+1)
	}
	for _, s := range old {
		s.hangUp(now, r)
	}
}

// advance runs due work.
func (c *checker) advance(now time.Time, r *Relay) {
	if now.Before(c.due) {
		return
	}
	c.list(now, r)
	c.due = now.Add(c.upstream.Checks.Interval) // to look at the Pool's list again
	for _, s := range c.servers {
		s.advance(now, r)
		c.plan(s)
	}
}

func (s *checked) advance(now time.Time, r *Relay) {
	late := !now.Before(s.askedAt.Add(s.checker.upstream.Checks.Timeout))
	switch {
	case s.asking && late:
		s.report(now, r, "silent")
		s.hangUp(now, r)
	case s.conn != nil && late:
		s.hangUp(now, r)
	case s.conn != nil:
		s.conn.Advance(now)
		s.flush(now, r)
	case s.asking || now.Before(s.next):
	case s.checker.protocol == nil && s.checker.pool.IsReserved(s.server):
		// Held sessions ask now. A check must not take their client IDs.
		s.next = now.Add(s.checker.upstream.Checks.Interval)
	default:
		s.ask(now, r)
	}
}

// ask begins a check.
func (s *checked) ask(now time.Time, r *Relay) {
	u := s.checker.upstream
	s.askedAt, s.asking = now, true
	if s.socket == nil {
		socket, err := u.Transport.dial(r.sockets.Sockets, s.server.Addr, u.source(s.server.Addr.Addr()), netip.AddrPort{})
		if err != nil {
			s.report(now, r, "no socket")
			return
		}
		socket.SetOwner(s)
		s.socket = socket
	}
	if self := s.socket.Addr(); !s.known {
		s.preamble = newPreamble(u.Headers, self, self)
	}
	s.known = false
	if p := s.checker.protocol; p != nil {
		question := p.AppendPing(s.preamble.begin(r.sockets.Buffer()), s.checker.token)
		r.counters.Upstreams.Out.Count(question)
		r.sockets.Send(s.socket, s.server.Addr, question)
		s.preamble.sent()
		return
	}
	s.conn = u.Protocol.Dial(now, s.server.Addr, codec.Hello{Identity: r.identities.next(), From: s.socket})
	s.flush(now, r)
}

// heard handles a datagram from a server's address.
func (s *checked) heard(now time.Time, r *Relay, datagram []byte) {
	datagram = s.preamble.heard(datagram)
	if p := s.checker.protocol; p != nil {
		token, _, err := p.ParsePong(datagram)
		if err == nil && token == s.checker.token && s.asking {
			s.report(now, r, "")
		}
		return
	}
	if s.conn == nil {
		return
	}
	err := s.conn.Receive(now, datagram)
	decided := s.flush(now, r)
	if err == nil && s.asking {
		s.report(now, r, "")
	}
	if decided {
		s.hangUp(now, r)
	}
}

// refused handles the news that no process listens at a server's address.
func (s *checked) refused(now time.Time, r *Relay) {
	if s.asking {
		s.report(now, r, upstream.Refused)
		s.hangUp(now, r)
	}
}

// report ends a check. An empty why means that the server has answered. Otherwise why is the reason.
func (s *checked) report(now time.Time, r *Relay, why string) {
	checks := &s.checker.upstream.Checks
	passed, pause := why == "", checks.Interval
	s.known = passed
	s.asking = false
	if s.failures++; passed {
		s.failures = 0
	}
	r.samples.of(s.checker.upstream, s.server).Checked(passed, now.Sub(s.askedAt))
	if s.checker.pool.Checked(s.server, now, passed, now.Sub(s.askedAt), why) {
		r.journal.checked(s.checker.upstream.Name, s.server.Addr, passed, why)
	}
	if after := s.failures - s.checker.upstream.Options.Fall; after > 0 {
		pause = min(pause<<min(after, 16), slowest*pause)
	}
	s.next = s.askedAt.Add(pause)
	s.checker.plan(s)
}

// hangUp closes the connection and the socket of a check. So late datagrams of the server cannot reach the next
// check.
func (s *checked) hangUp(now time.Time, r *Relay) {
	if s.conn != nil {
		s.conn.Close(now, codec.Goodbye{Reason: codec.Closed})
		s.flush(now, r)
		s.conn = nil
	}
	if s.socket != nil {
		s.socket.Close()
	}
	s.socket, s.known = nil, false
}

// flush writes a connection's datagrams and handles its events. It reports whether the server has decided.
func (s *checked) flush(now time.Time, r *Relay) (decided bool) {
	r.sockets.sendAll(now, s.conn, s.preamble, s.socket, s.server.Addr)
	for ev, ok := s.conn.Poll(); ok; ev, ok = s.conn.Poll() {
		decided = decided || ev.Kind == codec.Connected || ev.Kind == codec.Disconnected
	}
	return decided
}

// mostSilences is the number of unanswered questions after which the next one comes from another port. A NAT on the way
// may still lead the old port to a server that has moved.
const mostSilences = 3

// list updates servers to the Pool's present list. Servers that stay keep their texts.
func (p *pinger) list() {
	listed := p.route.pool.Servers()
	if slices.Equal(listed, p.listed) {
		return
	}
	old := p.servers
	p.listed, p.servers = listed, nil
	for _, server := range listed {
		i := slices.IndexFunc(old, func(s *pinged) bool { return s.addr == server.Addr })
		if i < 0 {
			p.servers = append(p.servers, &pinged{pinger: p, addr: server.Addr})
			continue
		}
		p.servers = append(p.servers, old[i])
		old = slices.Delete(old, i, i+1)
	}
	for _, s := range old {
		s.close()
	}
}

// advance asks every server again once that is due.
func (p *pinger) advance(now time.Time, r *Relay) {
	if now.Before(p.due) {
		return
	}
	p.due = now.Add(p.route.Pings.Refresh)
	p.list()
	known := !now.Before(p.absentAt)
	for _, s := range p.servers {
		if now.Sub(s.heard) >= p.route.Pings.Keep {
			s.heard = time.Time{}
		}
		known = known || !s.heard.IsZero()
		p.ask(now, r, s)
	}
	if known {
		p.publish()
	}
}

func (p *pinger) ask(now time.Time, r *Relay, s *pinged) {
	if s.silences++; s.answers {
		s.silences = 1
	}
	if s.silences > mostSilences && s.socket != nil {
		s.close()
		s.socket, s.silences = nil, 1
	}
	if s.socket == nil {
		socket, err := r.sockets.Dial(s.addr, netio.SocketOptions{Local: p.route.Upstream.source(s.addr.Addr())})
		if err != nil {
			r.drops.count(now, dropped{stats.DropSocket, p.listeners[0], s.addr, 0, err})
			return
		}
		socket.SetOwner(s)
		s.socket = socket
	}
	if self := s.socket.Addr(); !s.answers {
		s.preamble = newPreamble(p.route.Upstream.Headers, self, self)
	}
	s.answers = false
	question := p.protocol.AppendPing(s.preamble.begin(r.sockets.Buffer()), p.token)
	r.counters.Upstreams.Out.Count(question)
	r.sockets.Send(s.socket, s.addr, question)
	s.preamble.sent()
}

// answered handles a datagram from a server's address.
func (s *pinged) answered(now time.Time, r *Relay, datagram []byte) {
	datagram = s.preamble.heard(datagram)
	token, text, err := s.pinger.protocol.ParsePong(datagram)
	switch {
	case err != nil:
		r.drops.add(now, dropped{stats.DropMalformed, s.pinger.listeners[0], s.socket.Peer(), len(datagram), err})
	case token != s.pinger.token:
		r.drops.add(now, dropped{stats.DropUnexpected, s.pinger.listeners[0], s.socket.Peer(), len(datagram),
			codec.ErrUnexpected})
	default:
		r.drops.has(stats.FateTaken)
		s.heard, s.answers = now, true
		s.text, s.pong = append(s.text[:0], text...), append(s.pong[:0], datagram...)
		s.pinger.publish()
	}
}

// publish makes the listeners' texts from the texts that count.
func (p *pinger) publish() {
	p.texts = p.texts[:0]
	var pong []byte // of the first server
	for _, s := range p.servers {
		if s.heard.IsZero() {
			continue
		}
		if pong == nil {
			pong = s.pong
		}
		// In ModeRelay even an empty text of a server counts. Otherwise the configured text is better than an empty one.
		if len(s.text) > 0 || p.route.Mode == policy.ModeRelay {
			p.texts = append(p.texts, s.text)
		}
	}
	for _, l := range p.listeners {
		p.joined = p.joined[:0]
		if len(p.texts) > 0 {
			p.joined = p.protocol.JoinPongs(p.joined, p.texts, codec.Listing{Name: p.route.Pings.Name, Port: l.port})
		}
		l.pong.set(p.joined, pong)
	}
}
