package raknet

import (
	"net/netip"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest/simnet"
)

// untimedPeer is a client that sends a datagram again only on request, and requests once. A literal one is like
// jsp-raknet: it sends again under the old number, and accepts the datagrams in its windows. The other is like
// serenityjs: it sends again under a new number, and accepts no datagram that was overtaken.
type untimedPeer struct {
	t       *testing.T
	literal bool

	out      [][]byte         // to be sent
	number   Seq24            // number of the next datagram
	reliable Seq24            // number of the next reliable message
	order    Seq24            // number of the next ordered one
	sent     map[Seq24][]byte // unacknowledged datagrams, without their header

	asked     map[Seq24]bool // requests for missing datagrams
	newest    Seq24          // newest datagram
	datagrams peerWindow
	messages  peerWindow
	up        bool
	got       []byte // the first byte of each message of the game
}

// peerWindow holds the arrivals from start on, as far as there is room.
type peerWindow struct {
	start Seq24
	room  int
	have  map[Seq24]*capsule
}

func newPeerWindow(literal bool) peerWindow {
	room := 1 << 20
	if literal {
		room = literalRoom + 1
	}
	return peerWindow{room: room, have: map[Seq24]*capsule{}}
}

func (w *peerWindow) takes(n Seq24) bool { return !n.Before(w.start) && n.Sub(w.start) <= w.room }

// put keeps c, of number n, and returns the capsules without a gap before them.
func (w *peerWindow) put(n Seq24, c *capsule) (ready []*capsule) {
	if !w.takes(n) {
		return nil
	}
	w.have[n] = c
	for c, ok := w.have[w.start]; ok; c, ok = w.have[w.start] {
		ready = append(ready, c)
		delete(w.have, w.start)
		w.start = w.start.Add(1)
	}
	return ready
}

func newUntimedPeer(t *testing.T, literal bool) *untimedPeer {
	return &untimedPeer{
		t: t, literal: literal, sent: map[Seq24][]byte{}, asked: map[Seq24]bool{}, newest: Seq24(seq24Mask),
		datagrams: newPeerWindow(literal), messages: newPeerWindow(literal),
	}
}

// Receive implements simnet.Node.
func (p *untimedPeer) Receive(_ time.Time, _, _ netip.AddrPort, b []byte) {
	var d datagram
	if b[0]&bitValid == 0 || d.parse(b) != nil {
		return
	}
	switch d.kind {
	case ackDatagram:
		p.each(d.body, func(n Seq24) { delete(p.sent, n) })
	case nackDatagram:
		p.each(d.body, p.sendAgain)
	default:
		p.take(&d)
	}
}

func (p *untimedPeer) each(body []byte, f func(Seq24)) {
	var r ackReader
	if err := r.parse(body); err != nil {
		p.t.Error(err)
	}
	for named, ok := r.next(); ok; named, ok = r.next() {
		for n := named.first; !named.last.Before(n); n = n.Add(1) {
			f(n)
		}
	}
}

func (p *untimedPeer) sendAgain(n Seq24) {
	body, ok := p.sent[n]
	switch {
	case !ok:
	case p.literal:
		p.out = append(p.out, append(appendDataHeader(nil, n, false, false), body...))
	default:
		p.send(body)
	}
}

func (p *untimedPeer) send(body []byte) {
	p.out = append(p.out, append(appendDataHeader(nil, p.number, false, false), body...))
	p.sent[p.number] = body
	p.number = p.number.Add(1)
}

// say sends a message.
func (p *untimedPeer) say(mode codec.Mode, payload []byte) {
	c := capsule{mode: mode, payload: payload}
	if mode.IsReliable() {
		c.reliable, p.reliable = p.reliable, p.reliable.Add(1)
		c.order, p.order = p.order, p.order.Add(1)
	}
	p.send(c.append(nil))
}

func (p *untimedPeer) take(d *datagram) {
	w := beginAcks(nil, ackDatagram, 100)
	w.add(ackRange{d.number, d.number})
	p.out = append(p.out, w.end())
	overtaken := !p.newest.Before(d.number)
	if !overtaken {
		for n := p.newest.Add(1); n != d.number; n = n.Add(1) {
			p.ask(n)
		}
		p.newest = d.number
	}
	if p.literal {
		if !p.datagrams.takes(d.number) {
			return
		}
		p.datagrams.put(d.number, &capsule{})
	} else if overtaken {
		return
	}
	for rest := d.body; !isPadding(rest); {
		var c capsule
		var err error
		if rest, err = c.parse(rest); err != nil {
			p.t.Fatal(err)
		}
		c.payload = append([]byte(nil), c.payload...)
		p.takeCapsule(&c)
	}
}

func (p *untimedPeer) ask(n Seq24) {
	if p.asked[n] {
		return
	}
	p.asked[n] = true
	w := beginAcks(nil, nackDatagram, 100)
	w.add(ackRange{n, n})
	p.out = append(p.out, w.end())
}

func (p *untimedPeer) takeCapsule(c *capsule) {
	if !c.mode.IsReliable() {
		p.handle(c)
		return
	}
	for _, c := range p.messages.put(c.reliable, c) {
		p.handle(c)
	}
}

func (p *untimedPeer) handle(c *capsule) {
	hello, pong := codec.Unreliable, codec.Unreliable
	if !p.literal {
		hello, pong = codec.ReliableOrdered, codec.ReliableOrdered
	}
	switch c.payload[0] {
	case idConnectionRequestAccepted:
		m := newIncomingConnection{server: address{AddrPort: linkServer}, addresses: 20}
		p.say(hello, m.append(nil))
		p.up = true
	case idConnectedPing:
		var m connectedPing
		if err := m.parse(c.payload); err != nil {
			p.t.Error(err)
		}
		answer := connectedPong{pingTime: m.time}
		p.say(pong, answer.append(nil))
	case idConnectedPong:
	default:
		p.got = append(p.got, c.payload[1])
	}
}

// Advance implements simnet.Node.
func (p *untimedPeer) Advance(time.Time) {}

// NextTimeout implements simnet.Node.
func (p *untimedPeer) NextTimeout() time.Time { return time.Time{} }

// Transmit implements simnet.Node.
func (p *untimedPeer) Transmit(_ time.Time, b []byte) ([]byte, netip.AddrPort, netip.AddrPort, bool) {
	if len(p.out) == 0 {
		return b, linkClient, linkServer, false
	}
	b = append(b, p.out[0]...)
	p.out = p.out[1:]
	return b, linkClient, linkServer, true
}

// TestPeersWithoutTimers: a peer that sends again only on request receives and delivers everything. The path loses one
// datagram of twenty each way, also requests and answers.
func TestPeersWithoutTimers(t *testing.T) {
	const messages = 2000
	for name, literal := range map[string]bool{"literal": true, "not literal": false} {
		t.Run(name, func(t *testing.T) {
			for _, seed := range simnet.Seeds(8) {
				net := simnet.New(t, seed, simnet.Weather{Latency: 25 * ms})
				server := &simNode{self: linkServer, peer: linkClient, p: New(Options{Cookies: CookiesNone})}
				peer := newUntimedPeer(t, literal)
				net.Add(server, linkServer)
				net.Add(peer, linkClient)
				peer.hello()
				if !net.RunUntil(time.Second, func() bool { return server.connected }) {
					t.Fatal("not connected within a second")
				}
				net.SetWeather(simnet.Weather{Latency: 25 * ms, Loss: 0.05})
				for i := range messages {
					payload := []byte{0xfe, byte(i)}
					server.send(t, net.Now(), codec.Message{Payload: payload, Mode: codec.ReliableOrdered})
					peer.say(codec.ReliableOrdered, payload)
					if i%50 == 49 {
						net.Run(20 * ms)
					}
				}
				net.RunUntil(time.Minute, func() bool { return len(server.got) == messages && len(peer.got) == messages })
				if len(server.got) != messages || len(peer.got) != messages {
					t.Fatalf("seed %d: we got %d, the peer %d messages, want %d", seed, len(server.got), len(peer.got), messages)
				}
				for i := range messages {
					if server.got[i].payload[1] != byte(i) || peer.got[i] != byte(i) {
						t.Fatalf("seed %d: message %d is another", seed, i)
					}
				}
				t.Logf("seed %d: all after %v", seed, net.Elapsed())
			}
		})
	}
}

// hello asks for a connection without a cookie, as this kind of client.
func (p *untimedPeer) hello() {
	m := openConnectionRequest2{server: address{AddrPort: linkServer}, mtu: 1400, guid: 5}
	p.out = append(p.out, m.append(nil))
	request := connectionRequest{guid: 5}
	mode := codec.Unreliable
	if !p.literal {
		mode = codec.ReliableOrdered
	}
	p.say(mode, request.append(nil))
}
