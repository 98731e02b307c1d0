package relay

import (
	"bytes"
	"net/netip"
	"time"

	"tidegate/codec"
)

// peer is a game's end of a connection, client or server, with all its events.
type peer struct {
	conn   codec.Conn
	events []codec.Event
	at     []time.Time
	react  func(now time.Time, p *peer, ev *codec.Event) // may be nil
}

func (p *peer) drain(now time.Time) {
	for ev, ok := p.conn.Poll(); ok; ev, ok = p.conn.Poll() {
		kept := ev
		kept.Payload = bytes.Clone(ev.Payload)
		p.events, p.at = append(p.events, kept), append(p.at, now)
		if p.react != nil {
			p.react(now, p, &kept)
		}
	}
}

// find returns the first event of a kind, or nil.
func (p *peer) find(kind codec.EventKind) *codec.Event {
	for i := range p.events {
		if p.events[i].Kind == kind {
			return &p.events[i]
		}
	}
	return nil
}

// count returns the number of events of a kind.
func (p *peer) count(kind codec.EventKind) (n int) {
	for i := range p.events {
		if p.events[i].Kind == kind {
			n++
		}
	}
	return n
}

// received returns the messages received so far.
func (p *peer) received() []codec.Message {
	var all []codec.Message
	for _, ev := range p.events {
		if ev.Kind == codec.Received {
			all = append(all, ev.Message)
		}
	}
	return all
}

// gone reports whether the connection has ended.
func (p *peer) gone() bool { return p.find(codec.Disconnected) != nil }

// player is a game client.
type player struct {
	peer
	addr netip.AddrPort
	at   netip.AddrPort // the listener; zero: listenerAddr
	deaf bool           // receives nothing
	mute bool           // sends nothing after its first datagram
	said bool           // has sent its first datagram
}

func (c *player) Receive(now time.Time, _, _ netip.AddrPort, datagram []byte) {
	if c.deaf {
		return
	}
	_ = c.conn.Receive(now, datagram)
	c.drain(now)
}

func (c *player) listener() netip.AddrPort {
	if c.at.IsValid() {
		return c.at
	}
	return listenerAddr
}

func (c *player) Advance(now time.Time) {
	c.conn.Advance(now)
	c.drain(now)
}

func (c *player) NextTimeout() time.Time { return c.conn.NextTimeout() }

func (c *player) Transmit(now time.Time, b []byte) ([]byte, netip.AddrPort, netip.AddrPort, bool) {
	if c.mute && c.said {
		return b, netip.AddrPort{}, netip.AddrPort{}, false
	}
	b, ok := c.conn.Transmit(now, b)
	c.said = c.said || ok
	c.drain(now)
	return b, c.addr, c.listener(), ok
}

// game is a game server.
type game struct {
	protocol codec.Protocol
	addr     netip.AddrPort
	peers    []*peer // in the order of their first datagrams
	byAddr   map[netip.AddrPort]*peer
	replies  []simDatagram
	react    func(now time.Time, p *peer, ev *codec.Event)
	down     bool                           // answers nothing
	misses   func(from netip.AddrPort) bool // reports clients whose datagrams are lost on the way; may be nil
	busy     bool                           // reads nothing until resume
	frozen   bool                           // while busy, says nothing either
	unread   []simDatagram
}

// resume makes a busy server read the datagrams that have waited.
func (g *game) resume(now time.Time) {
	g.busy, g.frozen = false, false
	for _, d := range g.unread {
		g.Receive(now, d.from, d.to, d.bytes)
	}
	g.unread = nil
}

func (g *game) Receive(now time.Time, from, to netip.AddrPort, datagram []byte) {
	switch {
	case g.down || g.misses != nil && g.misses(from):
		return
	case g.busy:
		g.unread = append(g.unread, simDatagram{from, to, bytes.Clone(datagram)})
		return
	}
	if p := g.byAddr[from]; p != nil {
		_ = p.conn.Receive(now, datagram)
		p.drain(now)
		return
	}
	conn, reply, err := g.protocol.Accept(now, from, datagram, nil)
	if len(reply) > 0 {
		g.replies = append(g.replies, simDatagram{g.addr, from, reply})
	}
	if err != nil || conn == nil {
		return
	}
	p := &peer{conn: conn, react: g.react}
	g.peers = append(g.peers, p)
	g.byAddr[from] = p
	p.drain(now)
}

func (g *game) Advance(now time.Time) {
	if g.frozen {
		return
	}
	for _, p := range g.peers {
		p.conn.Advance(now)
		p.drain(now)
	}
}

func (g *game) NextTimeout() time.Time {
	var next time.Time
	if g.frozen {
		return next
	}
	for _, p := range g.peers {
		if t := p.conn.NextTimeout(); !t.IsZero() && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	return next
}

func (g *game) Transmit(now time.Time, b []byte) ([]byte, netip.AddrPort, netip.AddrPort, bool) {
	if g.frozen {
		return b, netip.AddrPort{}, netip.AddrPort{}, false
	}
	if len(g.replies) > 0 {
		r := g.replies[0]
		g.replies = g.replies[1:]
		return append(b, r.bytes...), r.from, r.to, true
	}
	for _, p := range g.peers {
		if out, ok := p.conn.Transmit(now, b); ok {
			return out, g.addr, g.addrOf(p), true
		}
		p.drain(now)
	}
	return b, netip.AddrPort{}, netip.AddrPort{}, false
}

func (g *game) addrOf(p *peer) netip.AddrPort {
	for addr, other := range g.byAddr { // only one matches, so the order does not matter
		if other == p {
			return addr
		}
	}
	return netip.AddrPort{}
}

// welcome returns a game server's reaction. It admits every client with the next client ID, and echoes every message.
func welcome() func(now time.Time, p *peer, ev *codec.Event) {
	last := uint16(100)
	return func(now time.Time, p *peer, ev *codec.Event) {
		switch ev.Kind {
		case codec.Asked:
			last++
			p.conn.Admit(now, last)
		case codec.Received:
			_ = p.conn.Send(now, ev.Message)
		}
	}
}
