package relay

import (
	"bytes"
	"net/netip"
	"time"

	"tidegate/codec"
)

// overhear keeps datagrams to the proxy, by the client or by the socket to the server.
func (p *performance) overhear(from, to netip.AddrPort, datagram []byte) {
	key := from
	switch {
	case to.Addr().As4()[1] == strangers:
		p.guess(from, to, datagram)
		return
	case to.Addr() != listenerAddr.Addr():
		return // from the proxy
	case to.Port() >= upstreamSocketAddr(0).Port():
		key = to
	}
	if first := p.opened[key]; len(first) < openingMax {
		p.opened[key] = append(first, bytes.Clone(datagram))
	}
	all := append(p.heard[key], bytes.Clone(datagram))
	p.heard[key] = all[max(0, len(all)-overheardMax):]
}

// forge sends altered datagrams of another session in the names of a player and of its server. The forger knows
// addresses and ports, and nothing of this session's datagrams.
func (p *performance) forge(s *seat, e *Entry, n int) {
	var spied *seat
	for _, other := range p.seats {
		if other != s && other.connected && other.dialogue == s.dialogue {
			spied = other
		}
	}
	if e == nil {
		return
	}
	p.forgeGoodbyes(s, e)
	if spied == nil {
		return
	}
	spy := p.entryOf(spied)
	s.suspect, s.forged = true, p.Now().Add(forgedTime)
	if known := p.heard[spied.addr]; !s.dialogue.clients.Spec().Closed && len(known) > 0 {
		p.inject(known, s.addr, s.at, n)
	}
	if spy == nil || spy.Value.socket == nil || e.Value.socket == nil || s.dialogue.servers.Spec().Closed {
		return
	}
	if known := p.heard[spy.Value.socket.Addr()]; len(known) > 0 {
		p.inject(known, e.Value.socket.Peer(), e.Value.socket.Addr(), n)
	}
}

// forgeGoodbyes sends goodbyes in the names of a player and of its server. RakNet's bare one has no secret. In ENet
// without checksums a forger has to guess only the two bytes of the header and a number, and this one has guessed them.
// A relay judges no goodbye, and a server takes it in the handshake.
func (p *performance) forgeGoodbyes(s *seat, e *Entry) {
	end := p.serverEnd(e)
	s.excused = s.excused || s.scene.relayed && end != nil && end.find(codec.Connected) == nil
	forge := func(protocol codec.Protocol, key, from, to netip.AddrPort) {
		goodbye, known := []byte{0x15}, p.heard[key]
		switch name := protocol.Spec().Name; {
		case name == "raknet", name == "bedrock":
		case name == "enet" && len(known) > 0 && len(known[len(known)-1]) >= 2:
			head := known[len(known)-1][:2]
			goodbye, s.suspect = append([]byte{head[0] &^ 0x80, head[1]}, enetGoodbye...), true
		default:
			return
		}
		s.forged = p.Now().Add(forgedTime)
		p.Inject(0, from, to, goodbye)
	}
	forge(s.dialogue.clients, s.addr, s.addr, s.at)
	if u := e.Value.socket; u != nil {
		forge(s.dialogue.servers, u.Addr(), u.Peer(), u.Addr())
	}
}

// enetGoodbye is ENet's command to disconnect at once, behind the header of a datagram.
var enetGoodbye = []byte{0x44, 0xff, 0, 12, 0, 0, 0, 0}

// guess lets a stranger prove its forged address to ENet. It has guessed all fields of the acknowledgement but the
// time, which is the proof.
func (p *performance) guess(from, to netip.AddrPort, datagram []byte) {
	const kindVerify, atID, atOutgoing = 0x83, 8, 11
	if len(datagram) != 4+44 || datagram[4] != kindVerify {
		return // not ENet's VerifyConnect without a checksum
	}
	head := datagram[atOutgoing]&3<<4 | datagram[atID]
	forged := []byte{head, datagram[atID+1], 1, 0xff, 0, 0, datagram[6], datagram[7], datagram[2] ^ 0x80, datagram[3]}
	p.After(20*time.Millisecond, func() { p.Inject(0, to, from, forged) })
}

// attack sends altered datagrams of a player from its own address. The session may end, and all others must not notice.
func (p *performance) attack(s *seat, n int) {
	if len(p.heard[s.addr]) == 0 {
		return
	}
	s.suspect, s.excused = true, true
	p.inject(p.heard[s.addr], s.addr, s.at, n)
}

// inject delivers altered copies of known datagrams within 200 ms.
func (p *performance) inject(known [][]byte, from, to netip.AddrPort, n int) {
	for range n {
		b := bytes.Clone(known[p.rng.IntN(len(known))])
		for range p.rng.IntN(4) {
			switch at := p.rng.IntN(len(b) + 1); {
			case at == len(b):
				b = append(b, byte(p.rng.Uint32()))
			case p.rng.IntN(8) == 0 && at > 0:
				b = b[:at]
			default:
				b[at] = byte(p.rng.Uint32())
			}
		}
		p.Inject(time.Duration(p.rng.IntN(200))*time.Millisecond, from, to, b)
	}
}
