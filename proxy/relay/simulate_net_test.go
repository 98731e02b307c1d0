package relay

import (
	"net/netip"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest/simnet"
	"tidegate/codec/nethernet"
)

// disturbance is the weather of some paths for a while.
type disturbance struct {
	until   time.Time
	kind    actKind
	scene   *scene
	server  int
	weather simnet.Weather
}

// disturb gives some paths weather of their own for a while.
func (p *performance) disturb(kind actKind, sc *scene, server int, d time.Duration) {
	x := disturbance{until: p.Now().Add(d), kind: kind, scene: sc, server: server, weather: p.sky}
	switch kind {
	case slows:
		x.weather.Latency += 300 * time.Millisecond
	case cutsServer, cutsPlayers:
		x.weather.Loss = 1
	case shrinks:
		x.weather.MTU = []int{600, 1000, 1200}[server+int(d/time.Millisecond)%2]
	case corrupts:
		x.weather.Corruption = 0.02
		p.corrupt = later(p.corrupt, x.until.Add(lossTime))
	}
	p.disturbances = append(p.disturbances, x)
	p.silence(d)
}

// pathWeather returns the weather of a disturbed path, or nil.
func (p *performance) pathWeather(from, to netip.AddrPort) *simnet.Weather {
	for i := range p.disturbances {
		x := &p.disturbances[i]
		if p.Now().Before(x.until) && x.meets(from, to) {
			return &x.weather
		}
	}
	// A relayed datagram has two ways between its peers. Only one of them has weather, as between two peers elsewhere.
	for _, sc := range p.scenes {
		if sc.relayed && (from == sc.games[0].addr || from == sc.games[1].addr || to == sc.games[0].addr ||
			to == sc.games[1].addr) {
			return &weatherKinds[0]
		}
	}
	return nil
}

func (x *disturbance) meets(from, to netip.AddrPort) bool {
	switch x.kind {
	case slows, cutsServer:
		g := x.scene.games[x.server]
		return from == g.addr || to == g.addr
	case cutsPlayers:
		return from == x.scene.listener || to == x.scene.listener
	}
	return true
}

// strangers is the second byte of forged addresses.
const strangers = 9

// flood lets strangers with forged addresses begin to join. They know the first datagrams of players.
func (p *performance) flood(sc *scene, n int) {
	p.flooded = later(p.flooded, p.Now().Add(floodTime))
	if sc.relayed { // a stranger who repeats a player's first datagrams has a session until it has been silent for long
		p.flooded = later(p.flooded, p.Now().Add(p.proxy.settings.IdleTimeout))
	}
	for i := range n {
		m := sc.clients[i%len(sc.clients)]
		host := netip.AddrFrom4([4]byte{10, strangers, byte(p.rng.IntN(8)), byte(p.rng.IntN(256))})
		if i%4 == 0 && len(p.seats) > 0 {
			spied := p.seats[max(0, len(p.seats)-1-p.rng.IntN(4))]
			for k, b := range p.opened[spied.addr] {
				after := weatherKinds[0].Latency + time.Duration(k)*20*time.Millisecond // no copy overtakes its original
				p.Inject(after, netip.AddrPortFrom(host, spied.addr.Port()), spied.at, b)
				if spied.edge != nil && nethernet.IsSTUN(b) {
					p.Inject(after, netip.AddrPortFrom(host, 1024), spied.at, withoutPassword(b))
				}
			}
			continue
		}
		from := netip.AddrPortFrom(host, uint16(1024+p.rng.IntN(60000)))
		conn := m.Dial(p.Now(), sc.listener, codec.Hello{Identity: p.rng.Uint64()})
		if b, ok := conn.Transmit(p.Now(), make([]byte, 0, codec.MaxDatagram)); ok && !m.transport.Stream {
			p.Inject(time.Duration(p.rng.IntN(200))*time.Millisecond, from, sc.listener, b)
		}
	}
}

// garble lets a server send altered datagrams of its sessions. These may end, and all others must not notice.
func (p *performance) garble(g *game, n int) {
	if g.protocol.Spec().Closed {
		return
	}
	for _, s := range p.seats {
		e := p.entryOf(s)
		if s.over || e == nil || e.Value.socket == nil || e.Value.socket.Peer() != g.addr {
			continue
		}
		s.suspect, s.excused = true, true
		if known := p.heard[e.Value.socket.Addr()]; len(known) > 0 {
			p.inject(known, g.addr, e.Value.socket.Addr(), n)
		}
	}
}
