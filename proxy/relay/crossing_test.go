package relay

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest/simnet"
	"tidegate/codec/raknet"
	"tidegate/codec/riptide"
	"tidegate/internal/netio"
	"tidegate/internal/policy"
	"tidegate/internal/testkit/allocs"
	"tidegate/proxy/stats"
)

func TestLargeMessagesBetweenRakNets(t *testing.T) {
	w := newWorld(t, 1, simnet.Weather{Latency: 5 * time.Millisecond, Loss: 0.01}, raknet6(), defaultRoute(raknet6()))
	w.servers[0].react = func(now time.Time, p *peer, ev *codec.Event) {
		switch ev.Kind {
		case codec.Asked:
			p.conn.Admit(now, 0)
		case codec.Received:
			_ = p.conn.Send(now, codec.Message{Payload: append(ev.Payload, ev.Payload...), Mode: ev.Mode, Channel: ev.Channel})
		}
	}
	p := w.connect(codec.Hello{})
	rng := rand.New(rand.NewPCG(1, 1))
	payload := make([]byte, 500_000)
	for i := range payload {
		payload[i] = byte(rng.Uint32())
	}
	w.send(&p.peer, codec.Message{Payload: payload, Mode: codec.ReliableOrdered, Channel: 7})
	w.await("answered", time.Minute, func() bool { return len(p.received()) == 1 })
	got := p.received()[0]
	if !bytes.Equal(got.Payload, append(payload, payload...)) || got.Channel != 7 || got.Mode != codec.ReliableOrdered {
		t.Errorf("%d bytes on channel %d as %v came back", len(got.Payload), got.Channel, got.Mode)
	}
}

func TestModesAndChannelsPassBetweenRakNets(t *testing.T) {
	servers := raknet.New(raknet.Options{Bits: true}) // the players of the test have it, too
	w := newWorld(t, 1, simnet.Weather{Latency: 5 * time.Millisecond}, servers, defaultRoute(servers))
	p := w.connect(codec.Hello{Data: []byte("secret"), Identity: 0x1234})
	if asked := w.servers[0].peers[0].find(codec.Asked); string(asked.Payload) != "secret" || asked.Identity != 0x1234 {
		t.Errorf("the upstream was asked with password %q by %x", asked.Payload, asked.Identity)
	}
	for mode := codec.Unreliable; mode <= codec.ReliableSequenced; mode++ {
		for _, channel := range []uint8{0, 31} {
			before := len(p.received())
			m := codec.Message{Payload: []byte{0x86, byte(mode), 0x80}, Pad: 7, Mode: mode}
			if mode != codec.Unreliable && mode != codec.Reliable {
				m.Channel = channel
			}
			w.send(&p.peer, m)
			w.Run(time.Second)
			all := p.received()
			if len(all) != before+1 {
				t.Fatalf("%v: %d messages came back", mode, len(all)-before)
			}
			got := all[before]
			if got.Mode != mode || got.Channel != m.Channel || got.Pad != 7 || !bytes.Equal(got.Payload, m.Payload) {
				t.Errorf("%v on channel %d came back as %+v", mode, m.Channel, got)
			}
		}
	}
}

// TestRakNetRefusals asserts that a RakNet server's refusal becomes a refusal in Riptide.
func TestRakNetRefusals(t *testing.T) {
	for _, c := range []struct{ say, want codec.Reason }{
		{codec.ServerFull, codec.ServerFull},
		{codec.InvalidPassword, codec.Rejected},
		{codec.Banned, codec.Rejected},
		{codec.AlreadyConnected, codec.AlreadyConnected},
	} {
		w := newWorld(t, 1, simnet.Weather{Latency: time.Millisecond}, riptide22(), defaultRoute(raknet6()))
		w.servers[0].react = func(now time.Time, p *peer, ev *codec.Event) {
			if ev.Kind == codec.Asked {
				p.conn.Close(now, codec.Goodbye{Reason: c.say})
			}
		}
		p := w.join(codec.Hello{})
		w.await("refused", 12*time.Second, p.gone)
		if got := p.find(codec.Disconnected).Reason; got != c.want {
			t.Errorf("%v reached the client as %v, want %v", c.say, got, c.want)
		}
	}
}

// orderWorld joins a Riptide player to a RakNet server. The server sends a burst of ordered messages as the player
// connects.
func orderWorld(t *testing.T, ordered policy.Ordered, seed uint64) (*world, *player, int) {
	const messages = 60
	route := defaultRoute(raknet6())
	route.Bridge.Ordered = ordered
	quality := riptide.New(riptide.Options{IgnoreQuality: true})
	w := newWorld(t, seed, simnet.Weather{Latency: 5 * time.Millisecond}, quality, route)
	p := w.connect(codec.Hello{})
	w.Run(time.Second)
	w.SetPath(listenerAddr, p.addr, simnet.Weather{Latency: 5 * time.Millisecond, Jitter: 60 * time.Millisecond,
		Loss: 0.2})
	for i := range messages {
		w.send(w.servers[0].peers[0], codec.Message{
			Payload: enveloped(fmt.Append(nil, i), uint16(i)), Mode: codec.ReliableOrdered, Channel: uint8(i % 2),
		})
	}
	w.await("received", time.Minute, func() bool { return len(p.received()) == messages })
	return w, p, messages
}

func TestStrictOrderTowardsRiptide(t *testing.T) {
	for seed := range uint64(10) {
		_, p, _ := orderWorld(t, policy.OrderedStrict, seed)
		var ids [2][]uint16
		for _, m := range p.received() {
			ids[m.ID%2] = append(ids[m.ID%2], m.ID)
		}
		if !slices.IsSorted(ids[0]) || !slices.IsSorted(ids[1]) {
			t.Fatalf("seed %d: a channel came out of order: %v", seed, ids)
		}
	}
}

func TestFastOrderTowardsRiptideIsCounted(t *testing.T) {
	w, p, _ := orderWorld(t, policy.OrderedFast, 1)
	var ids []uint16
	for _, m := range p.received() {
		if m.ID%2 == 0 {
			ids = append(ids, m.ID)
		}
	}
	w.Run(10 * time.Second) // the last acknowledgements
	if slices.IsSorted(ids) || w.proxy.relay.counters.Overtaken == 0 {
		t.Errorf("counted %d overtaken; order seen: %v", w.proxy.relay.counters.Overtaken, ids)
	}
}

func TestStrictOrderIsBounded(t *testing.T) {
	route := defaultRoute(raknet6())
	route.Bridge.Ordered, route.Bridge.Queue = policy.OrderedStrict, 1000
	w := newWorld(t, 1, simnet.Weather{Latency: 50 * time.Millisecond}, riptide22(), route)
	p, other := w.connect(codec.Hello{}), w.connect(codec.Hello{})
	w.Run(time.Second)
	for i := range 30 {
		w.send(w.servers[0].peers[0], codec.Message{
			Payload: append([]byte{0x86, byte(i), 0}, make([]byte, 100)...), Mode: codec.ReliableOrdered,
		})
	}
	w.await("ended", 5*time.Second, p.gone)
	if w.drops(stats.DropQueueFull) == 0 || other.gone() {
		t.Errorf("counted %d; the other player ended: %v", w.drops(stats.DropQueueFull), other.gone())
	}
}

func TestForeignEnvelopesAreDropped(t *testing.T) {
	w := newWorld(t, 1, simnet.Weather{}, riptide22(), defaultRoute(raknet6()))
	p := w.connect(codec.Hello{})
	w.Run(time.Second)
	w.send(w.servers[0].peers[0], codec.Message{Payload: []byte{0xfe, 1, 2, 3}, Mode: codec.ReliableOrdered})
	w.send(w.servers[0].peers[0], codec.Message{Payload: []byte{0x86, 1, 0, 'x'}, Mode: codec.ReliableOrdered})
	w.await("received", time.Second, func() bool { return len(p.received()) == 1 })
	if w.drops(stats.DropEnvelope) != 1 || string(p.received()[0].Payload) != "x" {
		t.Errorf("counted %d, received %v", w.drops(stats.DropEnvelope), p.received())
	}
}

// TestNotifyGoesToRakNetAndBack asserts that Notify messages, the only ones without an ID, keep their form.
func TestNotifyGoesToRakNetAndBack(t *testing.T) {
	w := newWorld(t, 1, simnet.Weather{Latency: time.Millisecond}, riptide22(), defaultRoute(raknet6()))
	p := w.connect(codec.Hello{})
	w.send(&p.peer, codec.Message{Payload: []byte("hi"), Mode: codec.Notify})
	w.await("answered", time.Second, func() bool { return len(p.received()) == 1 })
	got := p.received()[0]
	there := w.servers[0].peers[0].received()[0]
	if got.Mode != codec.Notify || string(got.Payload) != "hi" || there.Mode != codec.UnreliableSequenced {
		t.Errorf("went as %+v, came back as %+v", there, got)
	}
}

// TestNotifyLosesNothingByAStandstill asserts that the player learns of the arrival of all messages, though the
// server stood still for a while. Then the server reads and echoes all waiting messages at once.
func TestNotifyLosesNothingByAStandstill(t *testing.T) {
	w := newWorld(t, 1, simnet.Weather{Latency: 5 * time.Millisecond}, riptide22(), defaultRoute(riptide22()))
	p := w.connect(codec.Hello{})
	const messages, busyAt, busyUntil = 300, 120, 160
	for i := range messages {
		switch i {
		case busyAt:
			w.servers[0].busy = true
		case busyUntil:
			w.servers[0].resume(w.Now())
		}
		w.send(&p.peer, codec.Message{Payload: []byte{1}, Mode: codec.Notify, Receipt: codec.Receipt(i + 1)})
		w.Run(time.Second / 60)
	}
	w.Run(time.Second)
	lost, delivered := 0, 0
	for _, ev := range p.events {
		switch ev.Kind {
		case codec.Lost:
			lost++
		case codec.Delivered:
			delivered++
		}
	}
	if echoed := len(p.received()); lost > 0 || delivered < messages-2 || echoed != messages {
		t.Errorf("of %d messages %d were echoed; %d told to be delivered, %d lost", messages, echoed, delivered, lost)
	}
}

// pipe joins a player to a server through a Relay without a network, for measurements.
type pipe struct {
	world  *world
	player *player
	server *peer
	now    time.Time
	buffer []byte
}

func newPipe(t testing.TB, clients, upstreams codec.Protocol) *pipe {
	return newPipeOn(t, clients, defaultRoute(upstreams))
}

func newPipeOn(t testing.TB, clients codec.Protocol, route *Route) *pipe {
	w := newWorld(t, 1, simnet.Weather{}, clients, route)
	p := w.connect(codec.Hello{})
	w.Run(time.Second)
	server := w.servers[0].peers[0]
	server.react, w.proxy.out = nil, make([]simDatagram, 0, 64)
	return &pipe{w, p, server, w.Now(), make([]byte, 0, codec.MaxDatagram)}
}

// Send implements Sockets. The datagram goes straight to the connection at the other end.
func (p *pipe) Send(s netio.Socket, _ netip.AddrPort, datagram []byte) {
	to := p.player.conn
	if s.Peer().IsValid() {
		to = p.server.conn
	}
	_ = to.Receive(p.now, datagram)
	for _, ok := to.Poll(); ok; _, ok = to.Poll() {
	}
}

func (p *pipe) Forward(s netio.Socket, to netip.AddrPort, datagram []byte) { p.Send(s, to, datagram) }

func (p *pipe) Buffer() []byte { return p.buffer[:0] }

func (p *pipe) Dial(netip.AddrPort, netio.SocketOptions) (netio.Socket, error) {
	return nil, errors.New("no more")
}

// round sends one message, and handles all datagrams that follow from it.
func (p *pipe) round(m codec.Message) {
	relay := p.world.proxy.relay
	relay.sockets.Sockets = p
	p.now = p.now.Add(10 * time.Millisecond)
	_ = p.player.conn.Send(p.now, m)
	p.feed(p.player.conn, p.world.proxy.sockets[listenerAddr], p.player.addr)
	relay.Advance(p.now)
	relay.Flush(p.now)
	p.feed(p.server.conn, p.world.proxy.sockets[upstreamSocketAddr(0)], serverAddr)
	relay.Flush(p.now)
	p.feed(p.player.conn, p.world.proxy.sockets[listenerAddr], p.player.addr)
	for _, c := range []codec.Conn{p.player.conn, p.server.conn} {
		c.Advance(p.now)
		for _, ok := c.Poll(); ok; _, ok = c.Poll() {
		}
	}
}

func (p *pipe) feed(from codec.Conn, s netio.Socket, addr netip.AddrPort) {
	for {
		d, ok := from.Transmit(p.now, p.buffer[:0])
		if !ok {
			return
		}
		p.world.proxy.relay.Receive(p.now, s, addr, d)
	}
}

func TestSteadyPathAllocatesNothing(t *testing.T) {
	for _, c := range []struct {
		name               string
		clients, upstreams codec.Protocol
		message            codec.Message
	}{
		{"riptide to raknet", riptide22(), raknet6(), codec.Message{Mode: codec.Reliable, ID: 7, HasID: true}},
		{"riptide to riptide", riptide22(), riptide22(), codec.Message{Mode: codec.Unreliable, ID: 7, HasID: true}},
		{"raknet to raknet", raknet6(), raknet6(), codec.Message{Mode: codec.ReliableOrdered, Channel: 3}},
		{"raknet to riptide", raknet6(), riptide22(), codec.Message{Mode: codec.ReliableOrdered}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPipe(t, c.clients, c.upstreams)
			c.message.Payload = append([]byte{0x86, 1, 0}, make([]byte, 200)...)
			for range 2000 {
				p.round(c.message)
			}
			before := p.world.proxy.relay.counters.FromClients.Messages
			if n := allocs.PerRun(1000, func() { p.round(c.message) }); n != 0 {
				t.Errorf("%v allocations a message", n)
			}
			if got := p.world.proxy.relay.counters.FromClients.Messages - before; got != 1001 {
				t.Errorf("%d messages went through, want 1001", got)
			}
			if p.world.proxy.relay.counters.Closed != 0 {
				t.Error("the session ended")
			}
		})
	}
}

func TestUnfitMessagesAreCounted(t *testing.T) {
	route := defaultRoute(raknet6())
	route.Bridge.Envelope = policy.EnvelopeRaw
	w := newWorld(t, 1, simnet.Weather{}, riptide22(), route)
	p := w.connect(codec.Hello{})
	w.send(&p.peer, codec.Message{Payload: []byte{0x05}, Mode: codec.Reliable, HasID: true}) // a RakNet handshake
	w.send(&p.peer, codec.Message{Mode: codec.Reliable, HasID: true})
	w.send(&p.peer, codec.Message{Payload: []byte{0x90, 1}, Mode: codec.Reliable, ID: 3, HasID: true})
	w.await("answered", time.Second, func() bool { return len(p.received()) == 1 })
	if got := p.received()[0]; w.drops(stats.DropUnfit) != 2 || string(got.Payload) != "\x90\x01" || got.ID != 0 {
		t.Errorf("counted %d, received %+v", w.drops(stats.DropUnfit), got)
	}
}
