package proxy

import (
	"net/netip"
	"slices"
	"time"

	"tidegate/codec"
	"tidegate/internal/netio"
	"tidegate/internal/upstream"
	"tidegate/proxy/stats"
)

// pinger asks the servers of a route for their texts, and makes of them those of the route's listeners.
type pinger struct {
	route    *route
	protocol codec.Pinger
	token    uint64 // of its questions: what does not bring it back comes from a stranger
	due      time.Time
	doors    []*listener
	listed   []*upstream.Server
	servers  []*pinged // of listed

	texts  [][]byte // scratch: those that count, as servers lists them
	joined []byte   // scratch
}

// pinged is a server of a pinger.
type pinged struct {
	pinger *pinger
	addr   netip.AddrPort
	socket netio.Socket // nil while none could be had
	heard  time.Time    // when it last answered; zero: it has no text that counts
	text   []byte
	pong   []byte // the datagram that brought it
	// While it does not answer, questions begin anew as a stranger's do, with a header: it may have been restarted.
	answers  bool
	preamble *preamble
}

// addPingers has the servers of every route asked that a listener with a Pong takes.
func (r *Relay) addPingers(now time.Time) {
	for _, route := range r.routes {
		if route.Pings.Refresh <= 0 || route.Upstream.Transport.Stream {
			continue
		}
		protocol, _ := route.Upstream.Protocol.(codec.Pinger)
		var doors []*listener
		for _, d := range r.listeners {
			if d.route != route || d.pong == nil {
				continue
			}
			doors = append(doors, d)
			if protocol == nil && route.Mode == ModeRelay {
				protocol = d.pinger() // which the servers speak too
			}
		}
		if protocol != nil && len(doors) > 0 {
			r.pingers = append(r.pingers, newPinger(route, protocol, doors, r.identities.next(), now))
		}
	}
}

func newPinger(r *route, protocol codec.Pinger, doors []*listener, token uint64, now time.Time) *pinger {
	return &pinger{route: r, protocol: protocol, token: token, due: now, doors: doors}
}

// list makes servers those that the pool lists now. Those that stay keep their texts.
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

// close gives up the pinger's sockets.
func (p *pinger) close() {
	for _, s := range p.servers {
		s.close()
	}
}

func (s *pinged) close() {
	if s.socket != nil {
		s.socket.Close()
	}
}

// advance asks every server anew once it is time.
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
	if s.socket == nil {
		socket, err := r.sockets.Dial(s.addr, netio.SocketOptions{Local: p.route.Upstream.source(s.addr.Addr())})
		if err != nil {
			r.drops.add(now, dropped{stats.DropSocket, p.doors[0], s.addr, 0, err})
			return
		}
		socket.SetOwner(s)
		s.socket = socket
	}
	if self := s.socket.Addr(); !s.answers {
		s.preamble = p.route.Upstream.Headers.preamble(self, self)
	}
	s.answers = false
	r.sockets.Send(s.socket, s.addr, p.protocol.AppendPing(s.preamble.begin(r.sockets.Buffer()), p.token))
	s.preamble.sent()
}

// answered takes what came from a server's address.
func (s *pinged) answered(now time.Time, r *Relay, datagram []byte) {
	datagram = s.preamble.heard(datagram)
	token, text, err := s.pinger.protocol.ParsePong(datagram)
	switch {
	case err != nil:
		r.drops.add(now, dropped{stats.DropMalformed, s.pinger.doors[0], s.socket.Peer(), len(datagram), err})
	case token != s.pinger.token:
		r.drops.add(now, dropped{stats.DropUnexpected, s.pinger.doors[0], s.socket.Peer(), len(datagram), codec.ErrUnexpected})
	default:
		s.heard, s.answers = now, true
		s.text, s.pong = append(s.text[:0], text...), append(s.pong[:0], datagram...)
		s.pinger.publish()
	}
}

// publish makes the listeners' texts of those that count.
func (p *pinger) publish() {
	p.texts = p.texts[:0]
	var pong []byte // of the first
	for _, s := range p.servers {
		// A relay says what a server says, also if that is nothing; elsewhere the configured text is better.
		if s.heard.IsZero() || len(s.text) == 0 && p.route.Mode != ModeRelay {
			continue
		}
		if p.texts = append(p.texts, s.text); pong == nil {
			pong = s.pong
		}
	}
	for _, d := range p.doors {
		p.joined = p.joined[:0]
		if len(p.texts) > 0 {
			p.joined = p.protocol.JoinPongs(p.joined, p.texts, codec.Listing{Name: p.route.Pings.Name, Port: d.port})
		}
		d.pong.set(p.joined, pong)
	}
}
