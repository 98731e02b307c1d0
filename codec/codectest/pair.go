package codectest

import (
	"bytes"
	"math/rand/v2"
	"net/netip"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest/simnet"
)

const (
	clientName = "client"
	serverName = "server"
	helloSize  = 20
)

// settleLimit bounds the virtual time for the promised deliveries, in any network conditions of the suite.
const settleLimit = 2 * time.Minute

var (
	clientAddr   = netip.MustParseAddrPort("192.0.2.1:40000")
	serverAddr   = netip.MustParseAddrPort("198.51.100.1:7777")
	strangerAddr = netip.MustParseAddrPort("203.0.113.1:50000")
)

// pair is a client and a server of one protocol in a network.
type pair struct {
	c       *Config
	r       *report
	net     *simnet.Net
	rng     *rand.Rand
	client  *side
	server  *side
	node    *serverNode
	up      *ledger // client to server
	down    *ledger // server to client
	hello   codec.Hello
	flooded time.Time // until when the last flood has driven both sides
	ahead   bool      // the client is dialed ahead, and the server defers it
	crowded bool      // the planned traffic is more than the path takes at once
}

// newPair makes a server that waits in the given network conditions, and a client that has not dialed yet.
func newPair(r *report, c *Config, seed uint64, weather simnet.Weather) *pair {
	p := &pair{
		c: c, r: r,
		net:  simnet.New(r, seed, weather),
		rng:  rand.New(rand.NewPCG(seed, 1)),
		up:   &ledger{c: c, r: r, name: "client to server", direction: 1},
		down: &ledger{c: c, r: r, name: "server to client", direction: 2},
	}
	p.client = &side{name: clientName, c: c, r: r, rng: p.rng, out: p.up, in: p.down}
	p.server = &side{name: serverName, c: c, r: r, rng: p.rng, out: p.down, in: p.up}
	p.server.admitID = uint16(1 + p.rng.IntN(1000))
	p.up.fixed = c.ClientPayload
	if c.Greeting != nil {
		p.server.unheard = func() bool { return !p.client.connected && !p.client.over && !p.server.over }
	}
	return p
}

// dial brings both protocols into the network and opens the connection.
func (p *pair) dial(build factory, seed uint64) {
	server, client := build(seed)
	p.startSaving(build, seed)
	p.node = &serverNode{protocol: server, r: p.r, self: serverAddr, client: clientAddr, side: p.server, defers: p.ahead}
	p.net.Add(p.node, serverAddr)
	p.composeHello()
	p.node.identity = p.hello.Identity
	lent := p.hello
	lent.Data = bytes.Clone(p.hello.Data)
	if p.ahead {
		p.client.conn = client.(codec.Granter).DialAhead(p.net.Now(), serverAddr, codec.Hello{Identity: lent.Identity})
	} else {
		p.client.conn = client.Dial(p.net.Now(), serverAddr, lent)
	}
	clear(lent.Data)
	p.net.Add(&clientNode{side: p.client, spec: client.Spec(), self: clientAddr, server: serverAddr}, clientAddr)
}

func (p *pair) composeHello() {
	if p.c.HelloData {
		p.hello.Pad = p.c.Pads[p.rng.IntN(len(p.c.Pads))]
		p.hello.Data = p.c.appendFiller(nil, p.rng.Uint32(), 1+p.rng.IntN(helloSize), p.hello.Pad)
	}
	if p.c.HelloIdentity {
		p.hello.Identity = p.rng.Uint64() | 1
	}
}

// connect runs until both sides are connected, and checks the facts that they report. It returns false if the attempt
// failed. The caller decides whether the network conditions excuse that.
func (p *pair) connect() bool {
	p.net.RunUntil(p.c.DialTimeout, func() bool {
		return p.client.connected && p.server.connected || p.client.over || p.server.over
	})
	if !p.client.connected || !p.server.connected {
		return false
	}
	p.checkHandshake()
	return !p.r.Failed()
}

// checkHandshake checks the facts that the sides of a connected pair learned from each other.
func (p *pair) checkHandshake() {
	asked := &p.server.asked
	if !p.server.wasAsked {
		p.r.Errorf("server: Connected without Asked")
	}
	if sent := p.hello; p.c.HelloData && (!bytes.Equal(asked.Payload, sent.Data) || asked.Pad != sent.Pad) {
		p.r.Errorf("server: Asked brings data %x pad %d, want %x pad %d", asked.Payload, asked.Pad, sent.Data, sent.Pad)
	}
	if p.c.HelloIdentity && asked.Identity != p.hello.Identity {
		p.r.Errorf("server: Asked brings identity %x, want %x", asked.Identity, p.hello.Identity)
	}
	if p.c.ClientIDs && p.client.clientID != p.server.admitID {
		p.r.Errorf("client: received client ID %d, want %d", p.client.clientID, p.server.admitID)
	}
}

// mustConnect is connect in network conditions that excuse no failure.
func (p *pair) mustConnect() bool {
	if p.connect() {
		return true
	}
	p.r.Errorf("no session: client connected %v, over %v (%v); server asked %v, connected %v, over %v (%v)",
		p.client.connected, p.client.over, p.client.goodbye.Reason,
		p.server.wasAsked, p.server.connected, p.server.over, p.server.goodbye.Reason)
	return false
}

// connectedPair returns a pair with a session in good network conditions, or nil.
func connectedPair(r *report, c *Config, seed uint64) *pair {
	p := newPair(r, c, seed, clear20)
	p.dial(c.New, seed)
	if !p.mustConnect() {
		return nil
	}
	return p
}

// runUntilOver runs until both sides are disconnected, which must happen within the time-out.
func (p *pair) runUntilOver() {
	limit := max(p.c.Timeout, p.c.DialTimeout)
	p.net.RunUntil(limit, func() bool { return p.client.over && p.server.over })
	for _, s := range []*side{p.client, p.server} {
		if !s.over {
			p.r.Errorf("%s: no Disconnected within %v", s.name, limit)
		}
	}
	p.up.checkReceipts()
	p.down.checkReceipts()
}

// closeAndCheck ends a quiet session. The side closes, both sides disconnect, and no further event follows.
func (p *pair) closeAndCheck(s *side, why codec.Goodbye) {
	s.close(p.net.Now(), why)
	if err := s.conn.Send(p.net.Now(), codec.Message{Payload: []byte("late"), Mode: p.c.modes[0]}); !isClosed(err) {
		p.r.Errorf("%s: Send after Close: %v, want ErrClosed", s.name, err)
	}
	p.runUntilOver()
	p.net.Run(time.Second)
}
