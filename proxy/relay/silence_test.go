package relay

import (
	"bytes"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest/simnet"
	"tidegate/codec/enet"
	"tidegate/codec/riptide"
)

// pausable is a node whose process can stand still. Its datagrams wait in the socket.
type pausable struct {
	simnet.Node
	asleep bool
	unread []simDatagram
}

func (s *pausable) Receive(now time.Time, from, to netip.AddrPort, datagram []byte) {
	if s.asleep {
		s.unread = append(s.unread, simDatagram{from, to, bytes.Clone(datagram)})
		return
	}
	for _, d := range s.unread {
		s.Node.Receive(now, d.from, d.to, d.bytes)
	}
	s.unread = nil
	s.Node.Receive(now, from, to, datagram)
}

func (s *pausable) Advance(now time.Time) {
	if !s.asleep {
		s.Node.Advance(now)
	}
}

func (s *pausable) NextTimeout() time.Time {
	if s.asleep {
		return time.Time{}
	}
	return s.Node.NextTimeout()
}

func (s *pausable) Transmit(now time.Time, b []byte) ([]byte, netip.AddrPort, netip.AddrPort, bool) {
	if s.asleep {
		return b, netip.AddrPort{}, netip.AddrPort{}, false
	}
	return s.Node.Transmit(now, b)
}

// beside is a world with two players of one server: one plays through the proxy, and one without it.
type beside struct {
	*world
	through, direct         *player
	throughNode, directNode *pausable
	server                  *pausable
}

// waits is how long a library waits for a silent peer, as games set it. The proxy has the library's default.
type waits struct {
	name          string
	proxy, peer   func() codec.Protocol
	leastPatience time.Duration
}

func enetPatience(least time.Duration) waits {
	o := enet.Options{}
	if least > 0 {
		o = enet.Options{TimeoutLimit: 64, TimeoutMinimum: least, Timeout: time.Minute}
	}
	return waits{"enet", func() codec.Protocol { return enet.New(enet.Options{Seed: [32]byte{1}}) },
		func() codec.Protocol { return enet.New(o) }, least}
}

func riptidePatience(least time.Duration) waits {
	return waits{"riptide", func() codec.Protocol { return riptide.New(riptide.Options{}) },
		func() codec.Protocol { return riptide.New(riptide.Options{TimeoutTime: least}) }, least}
}

// newBeside connects both players over paths with a round trip.
func newBeside(t *testing.T, trip time.Duration, client, server waits) *beside {
	t.Helper()
	line := simnet.Weather{Latency: trip / 2}
	w := newWorld(t, 1, line, client.proxy(), defaultRoute(server.proxy()))
	near := simnet.Weather{Latency: 100 * time.Microsecond}
	w.SetPath(upstreamSocketAddr(0), serverAddr, near)
	w.SetPath(serverAddr, upstreamSocketAddr(0), near)
	w.servers[0].protocol = server.peer()
	b := &beside{world: w, server: &pausable{Node: w.servers[0]}}
	w.Remove(serverAddr)
	w.Add(b.server, serverAddr)
	join := func(addr, at netip.AddrPort) (*player, *pausable) {
		p := &player{addr: addr, at: at}
		p.conn = client.peer().Dial(w.Now(), at, codec.Hello{})
		node := &pausable{Node: p}
		w.Add(node, addr)
		w.await("connected", 10*time.Second, func() bool { return p.find(codec.Connected) != nil })
		return p, node
	}
	b.through, b.throughNode = join(playerAddr(0), listenerAddr)
	b.direct, b.directNode = join(playerAddr(1), serverAddr)
	w.Run(20 * time.Second)
	return b
}

// pause lets nodes stand still for a time.
func (b *beside) pause(d time.Duration, nodes ...*pausable) {
	for _, n := range nodes {
		n.asleep = true
	}
	b.Run(d)
	for _, n := range nodes {
		n.asleep = false
	}
	for _, addr := range []netip.AddrPort{b.through.addr, b.direct.addr, serverAddr} {
		b.Inject(0, strangerAddr(1), addr, []byte{0}) // wakes the node
	}
	b.Run(time.Millisecond)
}

// answers reports whether a player gets an echo within a time.
func (b *beside) answers(p *player, limit time.Duration) bool {
	had := p.count(codec.Received)
	m := codec.Message{Mode: codec.ReliableOrdered, Payload: []byte("hello")}
	err := p.conn.Send(b.Now(), m)
	if err == codec.ErrMode {
		m.Mode = codec.Reliable
		err = p.conn.Send(b.Now(), m)
	}
	return err == nil && b.RunUntil(limit, func() bool { return p.count(codec.Received) > had })
}

// TestPausesBesideDirect lets a game's client, its server, or both stand still, with time-outs of the library and
// raised ones, near and far. A player who plays on without the proxy plays on behind it.
func TestPausesBesideDirect(t *testing.T) {
	stock, raised := enetPatience(0), enetPatience(30*time.Second)
	stockRiptide, raisedRiptide := riptidePatience(0), riptidePatience(30*time.Second)
	survived := 0
	for _, c := range []struct{ client, server waits }{
		{stock, stock}, {raised, raised}, {stock, raised}, {raised, stock},
		{stockRiptide, stockRiptide}, {raisedRiptide, raisedRiptide}, {stockRiptide, raisedRiptide},
		{raisedRiptide, stockRiptide},
	} {
		for _, trip := range []time.Duration{2 * time.Millisecond, 200 * time.Millisecond} {
			for _, seconds := range []time.Duration{2, 4, 7, 12, 25} {
				for _, who := range []string{"client", "server", "both"} {
					name := fmt.Sprintf("%s: %s for %d s, %v away, minimum %v and %v", c.client.name, who, seconds, trip,
						c.client.leastPatience, c.server.leastPatience)
					b := newBeside(t, trip, c.client, c.server)
					var nodes []*pausable
					if who != "server" {
						nodes = append(nodes, b.throughNode, b.directNode)
					}
					if who != "client" {
						nodes = append(nodes, b.server)
					}
					b.pause(seconds*time.Second, nodes...)
					through, direct := b.answers(b.through, 10*time.Second), b.answers(b.direct, 10*time.Second)
					if direct {
						survived++
					}
					if direct && !through {
						t.Errorf("%s: only the player without the proxy plays on", name)
					}
				}
			}
		}
	}
	t.Logf("%d pauses are survived without the proxy", survived)
}

// TestSilenceIsShown lets a client vanish for good. The server notices about when it would without the proxy: it is
// shown the silence, and its own patience decides.
func TestSilenceIsShown(t *testing.T) {
	for _, c := range []struct {
		client, server waits
		trip           time.Duration
	}{
		{enetPatience(0), enetPatience(0), 2 * time.Millisecond},
		{enetPatience(0), enetPatience(0), 200 * time.Millisecond},
		{enetPatience(0), enetPatience(15 * time.Second), 2 * time.Millisecond},
		{riptidePatience(0), riptidePatience(0), 2 * time.Millisecond},
		{riptidePatience(0), riptidePatience(15 * time.Second), 200 * time.Millisecond},
	} {
		b := newBeside(t, c.trip, c.client, c.server)
		b.throughNode.asleep, b.directNode.asleep = true, true
		begun := b.Now()
		left := func(p *peer) time.Duration {
			b.RunUntil(time.Minute, p.gone)
			return p.at[len(p.at)-1].Sub(begun)
		}
		direct, through := left(b.servers[0].peers[1]), left(b.servers[0].peers[0])
		if late := through - direct; late < -time.Second || late > 3*time.Second {
			t.Errorf("%s, %v: the server loses the client after %v, without the proxy after %v",
				c.client.name, c.server.leastPatience, through, direct)
		}
	}
}
