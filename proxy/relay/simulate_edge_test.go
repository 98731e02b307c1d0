package relay

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"net/netip"
	"time"

	"tidegate/codec"
	"tidegate/codec/nethernet"
	"tidegate/internal/joining"
)

// httpPort is the port of a server's HTTP side. Its datagrams have another one.
const httpPort = 19130

func (sc *scene) pooled(i int) netip.AddrPort {
	if sc.edge {
		return netip.AddrPortFrom(sc.games[i].addr.Addr(), httpPort)
	}
	return sc.games[i].addr
}

// askToJoin does what a client and a server do over HTTP. It returns nil if the join is refused.
func (p *performance) askToJoin(s *seat) *edgeNames {
	sc, now := s.scene, p.Now()
	pool := p.proxy.shared.Pools.Get(sc.route.Upstream.Name)
	server := pool.Pick(now, s.addr.Addr(), nil)
	if server == nil {
		return nil
	}
	i := 0
	if server.Addr == sc.pooled(1) {
		i = 1
	}
	table := p.proxy.settings.Listeners[p.indexOf(sc)].Joins
	t, err := table.Ask(now, fmt.Sprint(s.number), sc.route.Name, s.addr.Addr(), server.Addr)
	if err != nil {
		p.judge.Errorf("player %d may not ask: %v", s.number, err)
	}
	table.Place(t, server.Addr, func() { pool.Release(server) })
	if sc.games[i].down || now.Before(sc.refusing[i]) {
		table.End(now, t, joining.Refused, "code 37")
		return nil
	}
	n := &edgeNames{
		fmt.Sprintf("srv%d", s.number), fmt.Sprintf("the server's password %d", s.number),
		fmt.Sprintf("cli%d", s.number), fmt.Sprintf("the client's password %d", s.number),
	}
	t.ServerUfrag, t.ServerPassword, t.ClientUfrag = n.serverUfrag, n.serverPassword, n.clientUfrag
	t.Target = sc.games[i].addr
	if err := table.Answer(now, t); err != nil {
		p.judge.Errorf("player %d gets no answer: %v", s.number, err)
	}
	sc.games[i].protocol.(*iceServer).names[n.username()] = n
	return n
}

// enterEdge lets a player of an edge join, and reports whether its server lets it in. Every other player checks from
// two addresses at once, which may be at two loops.
func (p *performance) enterEdge(s *seat) bool {
	names := p.askToJoin(s)
	if names == nil {
		return false
	}
	dial := s.dialogue.clients
	ice := &iceConn{
		names: names, asks: true, paths: 1 + s.number%2, born: p.Now(), due: p.Now(), seen: make(map[uint32]bool),
		integrity: nethernet.NewIntegrity(),
		begin: func(now time.Time, _ []byte) codec.Conn {
			return dial.Dial(now, s.scene.listener, codec.Hello{Identity: uint64(1000 + s.who)})
		},
	}
	s.edge = &edgePlayer{player: s.player, ice: ice, names: names}
	s.conn = ice
	for i := range ice.paths {
		s.edge.addrs = append(s.edge.addrs, s.pathAddr(i))
	}
	p.Add(s.edge, s.edge.addrs...)
	return true
}

// rebind gives a player another address, as a NAT does. It notices nothing before its next check.
func (p *performance) rebind(s *seat) {
	c := s.edge.ice
	if c.chosen == 0 {
		return
	}
	s.rebound = p.Now().Add(rebindTime)
	at := &s.edge.addrs[c.chosen-1]
	p.Remove(*at)
	s.rebinds++
	*at = s.natAddr(s.rebinds)
	p.Add(s.edge, *at)
}

// rebindTime is the time until a client's next check, and until what was lost before it has been sent again.
const rebindTime = consentPause + lossTime

// vanish takes a player out of the network.
func (p *performance) vanish(s *seat) {
	s.lost = true
	if s.edge != nil {
		p.Remove(s.edge.addrs...)
		return
	}
	p.Remove(s.addr)
}

// entryOfEdge returns the session of a NetherNet client by its join, or nil.
func (p *process) entryOfEdge(s *seat) *Entry {
	for _, n := range p.nodes {
		j := n.listenerAt(s.at).joins
		for t, e := range j.sessions {
			if t.Told().ClientUfrag == s.edge.names.clientUfrag {
				return e
			}
		}
	}
	return nil
}

// checkWay asserts that a server's datagram goes to an address from which its client has sent. A stranger who has
// recorded a request that the network has lost is the first one to send it, and nothing tells the two apart.
func (p *performance) checkWay(e *Entry, datagram []byte, all []simDatagram) {
	if !p.lossy.IsZero() || !p.silent.IsZero() {
		return
	}
	for _, out := range all {
		if !bytes.Equal(out.bytes, datagram) {
			continue
		}
		for _, s := range p.seats {
			if s.edge != nil && p.proxy.entryOfEdge(s) == e && !s.hasHad(out.to) {
				p.judge.Errorf("a datagram for player %d goes to %v", s.number, out.to)
			}
		}
	}
}

// withoutPassword returns a client's request as a stranger changes it who has recorded it and lacks the password: with
// another ID, and with a right fingerprint.
func withoutPassword(request []byte) []byte {
	b := bytes.Clone(request)
	b[10] ^= 1 // in the ID
	end := len(b) - 4
	binary.BigEndian.PutUint32(b[end:], crc32.ChecksumIEEE(b[:end-4])^0x5354554e)
	return b
}

// pathAddr is one of a player's first addresses. With two loops, the second one is at the other loop.
func (s *seat) pathAddr(i int) netip.AddrPort {
	return netip.AddrPortFrom(s.addr.Addr(), s.addr.Port()+uint16(i)*10_001)
}

// natAddr is a player's address after a NAT has changed n times.
func (s *seat) natAddr(n int) netip.AddrPort {
	return netip.AddrPortFrom(s.addr.Addr(), uint16(25_000+64*s.number+n))
}

// hasHad reports whether an address is one that a player has, or had before a NAT changed.
func (s *seat) hasHad(a netip.AddrPort) bool {
	for i := range 2 {
		if a == s.pathAddr(i) {
			return true
		}
	}
	for i := range s.rebinds {
		if a == s.natAddr(i+1) {
			return true
		}
	}
	return false
}

// newJoins gives the listeners of edges empty tables of joins, as a new process has them.
func (p *process) newJoins() {
	next := *p.settings
	next.Listeners = append([]Listener(nil), next.Listeners...)
	for i := range next.Listeners {
		if next.Listeners[i].Joins != nil {
			next.Listeners[i].Joins = joining.NewTickets(simulatedJoins, nil)
		}
	}
	p.settings = &next
}

// simulatedJoins have room for all players of a story: their joins are bounded elsewhere.
var simulatedJoins = joining.Limits{
	Unfinished: 1000, Network: 1000, Sessions: 1000, Patience: 30 * time.Second,
}
