package relay

import (
	"slices"
	"time"

	"tidegate/codec"
	"tidegate/internal/netio"
	"tidegate/internal/policy"
	"tidegate/proxy/stats"
)

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
	for _, s := range p.servers {
		if now.Sub(s.heard) >= p.route.Pings.Keep {
			s.heard = time.Time{}
		}
		p.ask(now, r, s)
	}
	p.publish()
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
		// In ModeRelay even an empty text of a server counts. Otherwise the configured text is better than an empty one.
		if s.heard.IsZero() || len(s.text) == 0 && p.route.Mode != policy.ModeRelay {
			continue
		}
		if p.texts = append(p.texts, s.text); pong == nil {
			pong = s.pong
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
