package rtype

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest/simnet"
)

// node is a Conn in a network. A game client behind it follows the instructions.
type node struct {
	codec.Conn
	self, peer netip.AddrPort
	world      mirror
}

func (n *node) Receive(now time.Time, _, _ netip.AddrPort, datagram []byte) {
	_ = n.Conn.Receive(now, datagram) // the worlds show refused datagrams
	n.drain()
}

func (n *node) Advance(now time.Time) {
	n.Conn.Advance(now)
	n.drain()
}

func (n *node) drain() {
	for e, ok := n.Poll(); ok; e, ok = n.Poll() {
		var in instruction
		if e.Kind == codec.Received && in.parseAlone(e.Payload, &canonical, nil) == nil {
			n.world.apply(&in)
		}
	}
}

func (n *node) Transmit(now time.Time, b []byte) ([]byte, netip.AddrPort, netip.AddrPort, bool) {
	b, ok := n.Conn.Transmit(now, b)
	return b, n.self, n.peer, ok
}

// TestRefreshRepairsLosses: half the instructions of a lively world are lost. Refreshes repair that, so that both
// sides have the same world in the end. Without refreshes they differ.
func TestRefreshRepairsLosses(t *testing.T) {
	for _, dialect := range []Dialect{Document, Game16, Game32} {
		for _, seed := range simnet.Seeds(20) {
			server, client := playLossy(t, seed, Options{Dialect: dialect, Refresh: time.Second, Components: worldSizes})
			if !slices.Equal(server, client) {
				t.Errorf("seed %d, %s: client has %q, server %q", seed, names[dialect], client, server)
			}
			server, client = playLossy(t, seed, Options{Dialect: dialect, Components: worldSizes})
			if slices.Equal(server, client) {
				t.Errorf("seed %d, %s: the same world without refreshes", seed, names[dialect])
			}
		}
	}
}

// playLossy plays two seconds in bad network conditions and some in good ones. It returns the world as each side has
// it.
func playLossy(t *testing.T, seed uint64, o Options) (server, client []string) {
	p := New(o)
	net := simnet.New(t, seed, simnet.Weather{})
	there := accept(&p.options, net.Now(), formats[o.Dialect], nil, secret{})
	there.Admit(net.Now(), 0)
	addr := netip.MustParseAddrPort("192.0.2.2:40000")
	player := &node{Conn: p.Dial(net.Now(), address, codec.Hello{}), self: addr, peer: address}
	player.world.max = defaultWorld
	net.Add(&node{Conn: there, self: address, peer: addr}, address)
	net.Add(player, addr)
	send(t, there, net.Now(), announce8)
	net.Run(time.Second)

	rng := rand.New(rand.NewPCG(seed, 7))
	net.SetWeather(simnet.Weather{Latency: 20 * time.Millisecond, Loss: 0.5})
	for range 200 {
		change(t, there, net.Now(), rng)
		net.Run(10 * time.Millisecond)
	}
	net.SetWeather(simnet.Weather{})
	net.Run(2 * time.Second)
	server, client = there.mirror.replayText(t), player.world.replayText(t)
	slices.Sort(server)
	slices.Sort(client)
	return server, client
}

// change changes the server's world a little. It updates each attached component at once, because the protocol does
// not carry a component's default data.
func change(t *testing.T, s *server, now time.Time, rng *rand.Rand) {
	t.Helper()
	in := instruction{entity: uint32(rng.IntN(12)), op: opcode(rng.IntN(5)), component: uint16(rng.IntN(3))}
	if s.mirror.has(in.entity) == (in.op == create) {
		return // a server changes only existing entities
	}
	list := []instruction{in}
	if in.op == attach || in.op == update {
		data := make([]byte, []int{4, 2, 1}[in.component])
		data[0] = byte(rng.IntN(256))
		list = []instruction{
			{op: attach, entity: in.entity, component: in.component},
			{op: update, entity: in.entity, component: in.component, data: data},
		}
	}
	for _, in := range list {
		if err := s.Send(now, codec.Message{Payload: in.append(nil, &canonical)}); err != nil {
			t.Fatal(err)
		}
	}
}
