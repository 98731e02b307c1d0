package codectest

import (
	"bytes"
	"net/netip"
	"slices"
	"time"

	"tidegate/codec"
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
		var said [][]byte
		own.net.SetTap(func(_, to netip.AddrPort, datagram []byte) {
			if to == serverAddr {
				said = append(said, bytes.Clone(datagram))
			}
		})
		own.dial(c.New, seed)
		if !own.mustConnect() {
			return
		}
		own.client.plan = own.compose(c.modes)
		own.net.Run(quiet)
		forge(r, c, seed, own.server.admitID+1, said)
	})
}

// forge replays datagrams to a server from a forged address where no client listens.
func forge(r *report, c *Config, seed uint64, admitID uint16, said [][]byte) {
	p := newPair(r, c, seed, clear20)
	p.server.admitID = admitID
	server, _ := c.New(seed)
	p.node = &serverNode{protocol: server, r: r, self: serverAddr, client: strangerAddr, side: p.server}
	p.net.Add(p.node, serverAddr)
	p.up.lenient, p.down.lenient, p.up.strange = true, true, true
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
