package codectest

import (
	"bytes"
	"net/netip"
	"slices"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest/simnet"
)

// checkFirstByte checks a datagram of the client against the Spec, on which the kernel's filters rely.
func (n *clientNode) checkFirstByte(datagram []byte) {
	first := datagram[0]
	switch {
	case n.spec.FirstBytes.IsEmpty():
	case !n.spec.FirstBytes.Has(first):
		n.r.Errorf("client: a datagram begins with %#x, which Spec.FirstBytes lacks", first)
	case n.connected && n.spec.Openings.Has(first):
		n.r.Errorf("client: after Connected a datagram begins with %#x, which is one of Spec.Openings", first)
	}
}

// checkLoneOpenings checks which bytes open a session as the only byte of a datagram.
func checkLoneOpenings(r *report, p codec.Protocol) {
	lone := p.Spec().LoneOpenings
	for b := range 256 {
		if b := byte(b); p.Sniff([]byte{b}) != lone.Has(b) {
			r.Errorf("Sniff(%#x) is %t, Spec.LoneOpenings says %t", b, p.Sniff([]byte{b}), lone.Has(b))
		}
	}
	if rest := p.Spec().Openings.AndNot(p.Spec().FirstBytes); !rest.IsEmpty() {
		r.Errorf("Spec.Openings has bytes that Spec.FirstBytes lacks")
	}
}

const (
	proofSeeds = 10
	proofTime  = 15 * time.Second // limit of a forger's attempt
)

// checkProof plays a forger that uses another client's address and receives nothing sent there. The forger has had a
// session of its own with the same server. It replays everything that its client sent then. The Spec's Proof must not
// follow.
func checkProof(t tb, c *Config) {
	if server, _ := c.New(1); server.Spec().Proof == codec.NoProof {
		return
	}
	simulateSeeds(t, proofSeeds, func(r *report, seed uint64) {
		own := newPair(r, c, seed, clear20)
		said, ok := own.overhear(c, seed, own.client, serverAddr)
		if !ok {
			return
		}
		forge(r, c, seed, own.server.admitID+1, said)
	})
}

// overhear connects the pair, lets one side talk, and returns everything that was sent to an address.
func (p *pair) overhear(c *Config, seed uint64, speaker *side, at netip.AddrPort) (said [][]byte, ok bool) {
	p.net.SetTap(func(_, to netip.AddrPort, datagram []byte) {
		if to == at {
			said = append(said, bytes.Clone(datagram))
		}
	})
	p.dial(c.New, seed)
	if !p.mustConnect() {
		return nil, false
	}
	speaker.plan = p.compose(c.modes)
	p.net.Run(quiet)
	return said, true
}

// checkForgedAnswer plays a forger that answers a client in its server's name. The forger has had a session of its own
// with the same server, and replays everything that the server said then. It sees nothing of the client's attempt.
func checkForgedAnswer(t tb, c *Config) {
	if c.ForgedAnswer != "" {
		t.Logf("not checked: %s", c.ForgedAnswer)
		return
	}
	simulateSeeds(t, proofSeeds, func(r *report, seed uint64) {
		own := newPair(r, c, seed, clear20)
		said, ok := own.overhear(c, seed, own.server, clientAddr)
		if !ok {
			return
		}

		p := newPair(r, c, seed+1000, simnet.Weather{Loss: 1})
		p.dial(c.New, seed+1000)
		p.up.lenient, p.down.lenient, p.down.strange = true, true, true
		for i, datagram := range said {
			p.net.Inject(time.Duration(i)*time.Millisecond, serverAddr, clientAddr, datagram)
		}
		if seed == 1 {
			p.guess(p.client, said[0])
		}
		if p.net.Run(proofTime); p.client.connected {
			r.Errorf("client: connected by answers to another client")
		}
	})
}

// guess gives a side a datagram for another one, with all values of two bytes at its start. A forger can send so many,
// so a proof needs more bits.
func (p *pair) guess(s *side, datagram []byte) {
	if s.conn == nil {
		return
	}
	for at := range min(3, len(datagram)-1) {
		for guess := range 1 << 16 {
			b := bytes.Clone(datagram)
			b[at], b[at+1] = byte(guess>>8), byte(guess)
			if s.receive(p.net.Now(), b); s.over || s.connected {
				return
			}
		}
	}
}

// forge replays datagrams to a server from a forged address where no client listens.
func forge(r *report, c *Config, seed uint64, admitID uint16, said [][]byte) {
	p := newPair(r, c, seed, clear20)
	p.server.admitID = admitID
	server, _ := c.New(seed)
	p.node = &serverNode{protocol: server, r: r, self: serverAddr, client: strangerAddr, side: p.server}
	p.net.Add(p.node, serverAddr)
	p.up.lenient, p.down.lenient, p.up.strange = true, true, true
	if seed == 1 && c.ShortProof == "" {
		p.net.Inject(0, strangerAddr, serverAddr, said[0])
		p.net.Run(proofTime / 15)
		for _, datagram := range said[1:min(len(said), 4)] {
			p.guess(p.server, datagram)
		}
	}
	for range 3 {
		for i, datagram := range slices.Concat(said, said[:min(len(said), hostileSamples)]) {
			p.net.Inject(time.Duration(i)*time.Millisecond, strangerAddr, serverAddr, datagram)
		}
		p.net.Run(proofTime / 3)
	}
	switch proof := server.Spec().Proof; {
	case proof == codec.ProvedAccept && p.server.conn != nil:
		r.Errorf("Accept makes a Conn for a client that hears nothing: that proves no address")
	case p.server.connected:
		r.Errorf("Connected to a client that hears nothing: that proves no address")
	}
}
