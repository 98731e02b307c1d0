package proxy

import (
	"time"

	"tidegate/codec"
	"tidegate/netio"
)

// pinger asks the servers of a route for their texts, and makes of them those of the route's listeners.
type pinger struct {
	route    *Route
	protocol codec.Pinger
	token    uint64 // of its questions: what does not bring it back comes from a stranger
	due      time.Time
	doors    []*door
	servers  []pinged

	texts  [][]byte // scratch: those that count, as servers lists them
	joined []byte   // scratch
}

// pinged is a server of a pinger.
type pinged struct {
	pinger *pinger
	socket netio.Socket // nil while none could be had
	heard  time.Time    // when it last answered; zero: it has no text that counts
	text   []byte
}

// addPingers has the servers of every route asked that a listener with a Pong takes.
func (r *Relay) addPingers(now time.Time) {
	for _, route := range r.routes {
		protocol, ok := route.Upstream.Protocol.(codec.Pinger)
		if !ok || route.Pings.Refresh <= 0 || route.Upstream.Transport.Stream {
			continue
		}
		var doors []*door
		for i := range r.doors {
			if d := r.doors[i]; d.route == route && d.pong != nil {
				doors = append(doors, d)
			}
		}
		if len(doors) > 0 {
			r.pingers = append(r.pingers, newPinger(route.Route, protocol, doors, r.identities.next(), now))
		}
	}
}

func newPinger(r *Route, protocol codec.Pinger, doors []*door, token uint64, now time.Time) *pinger {
	p := &pinger{
		route: r, protocol: protocol, token: token, due: now, doors: doors,
		servers: make([]pinged, len(r.Upstream.Servers)),
	}
	for i := range p.servers {
		p.servers[i].pinger = p
	}
	return p
}

// close gives up the pinger's sockets.
func (p *pinger) close() {
	for i := range p.servers {
		if s := &p.servers[i]; s.socket != nil {
			s.socket.Close()
		}
	}
}

// advance asks every server anew once it is time.
func (p *pinger) advance(now time.Time, r *Relay) {
	if now.Before(p.due) {
		return
	}
	p.due = now.Add(p.route.Pings.Refresh)
	for i := range p.servers {
		s := &p.servers[i]
		if now.Sub(s.heard) >= p.route.Pings.Keep {
			s.heard = time.Time{}
		}
		p.ask(now, r, i)
	}
	p.publish()
}

func (p *pinger) ask(now time.Time, r *Relay, server int) {
	s, addr := &p.servers[server], p.route.Upstream.Servers[server]
	if s.socket == nil {
		socket, err := r.sockets.Dial(addr, netio.SocketOptions{})
		if err != nil {
			r.drop(now, DropSocket, p.doors[0], addr, 0, err)
			return
		}
		socket.SetOwner(s)
		s.socket = socket
	}
	r.sockets.Send(s.socket, addr, p.protocol.AppendPing(r.sockets.Buffer(), p.token))
}

// answered takes what came from a server's address.
func (s *pinged) answered(now time.Time, r *Relay, datagram []byte) {
	token, text, err := s.pinger.protocol.ParsePong(datagram)
	switch {
	case err != nil:
		r.drop(now, DropMalformed, s.pinger.doors[0], s.socket.Peer(), len(datagram), err)
	case token != s.pinger.token:
		r.drop(now, DropUnexpected, s.pinger.doors[0], s.socket.Peer(), len(datagram), codec.ErrUnexpected)
	default:
		s.heard = now
		s.text = append(s.text[:0], text...)
		s.pinger.publish()
	}
}

// publish makes the listeners' texts of those that count.
func (p *pinger) publish() {
	p.texts = p.texts[:0]
	for i := range p.servers {
		if s := &p.servers[i]; !s.heard.IsZero() && len(s.text) > 0 {
			p.texts = append(p.texts, s.text)
		}
	}
	for _, d := range p.doors {
		p.joined = p.joined[:0]
		if len(p.texts) > 0 {
			p.joined = p.protocol.JoinPongs(p.joined, p.texts, codec.Listing{Name: p.route.Pings.Name, Port: d.port})
		}
		d.pong.set(p.joined)
	}
}
