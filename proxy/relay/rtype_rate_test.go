package relay

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest/simnet"
	"tidegate/codec/enet"
	"tidegate/codec/riptide"
	"tidegate/codec/rtype"
	"tidegate/codec/rudp"
	"tidegate/proxy/bridge"
)

// TestBridgesKeepTheGamesRate joins R-Type's clients to servers of each other protocol, and the reverse. They get all
// messages of the real game, 6,300 instructions a second. Each arrives once and unchanged.
func TestBridgesKeepTheGamesRate(t *testing.T) {
	if testing.Short() {
		t.Skip("long, and all in one goroutine")
	}
	others := []codec.Protocol{
		raknet6(), steady22, riptide.New(riptide.Options{Version: riptide.V20}), rudp.New(rudp.Options{AppID: 7, Rate: 100}),
		enet.New(enet.Options{}),
	}
	for _, dialect := range []rtype.Dialect{rtype.Game16, rtype.Game32, rtype.GameLast} {
		game := rtype.New(rtype.Options{Dialect: dialect, MaxQueued: 4 << 20})
		for _, other := range others {
			t.Run(game.Spec().Name+" at "+other.Spec().Name, func(t *testing.T) { gameRate(t, game, other) })
			t.Run(other.Spec().Name+" at "+game.Spec().Name, func(t *testing.T) { gameRate(t, other, game) })
		}
		for _, far := range []rtype.Dialect{rtype.Game16, rtype.Game32, rtype.GameLast} {
			server := rtype.New(rtype.Options{Dialect: far})
			t.Run(game.Spec().Name+" at "+server.Spec().Name, func(t *testing.T) { gameRate(t, game, server) })
		}
	}
}

func gameRate(t *testing.T, client, server codec.Protocol) {
	const seconds = 2
	route := matrixRoute(client, server)
	w := newWorld(t, 1, simnet.Weather{Latency: 5 * time.Millisecond}, client, route)
	w.servers[0].react = func(now time.Time, p *peer, ev *codec.Event) {
		if ev.Kind == codec.Asked {
			p.conn.Admit(now, 101)
			if server.Spec().Closed {
				w.tellGame(p, server, client, gameHead())
			}
		}
	}
	p := w.join(codec.Hello{})
	w.await("at the server", 10*time.Second, func() bool { return len(w.servers[0].peers) == 1 })
	far := w.servers[0].peers[0]
	if !server.Spec().Closed {
		w.await("connected at the server", 10*time.Second, func() bool { return far.find(codec.Connected) != nil })
		w.tellGame(far, server, client, gameHead())
	}
	w.await("connected", 10*time.Second, func() bool { return p.find(codec.Connected) != nil })
	w.Run(time.Second) // until all replays have ended
	p.events = nil
	n := uint32(0)
	for range seconds * int(time.Second/gameTick) {
		for range gamePerTick {
			w.tellGame(far, server, client, [][]byte{gameUpdate(n)})
			n++
		}
		w.Run(gameTick)
	}
	w.Run(2 * time.Second)
	got := gameHeard(t, p, client, server, route)
	if len(got) != int(n) {
		t.Fatalf("%d of %d instructions arrived; drops %v", len(got), n, w.proxy.relay.counters.Drops)
	}
	for i, payload := range got {
		if !bytes.Equal(payload, gameUpdate(uint32(i))) {
			t.Fatalf("instruction %d arrived as %x", i, payload)
		}
	}
}

// gameHead returns the messages at the beginning of a world.
func gameHead() [][]byte {
	head := [][]byte{append([]byte{0xf0, 0, 0, 0, 1, 4}, "Test\xff\xff"...)}
	for i := range byte(gameEntities) {
		head = append(head, []byte{0, 0, 0, 0, i})
	}
	return head
}

func gameUpdate(n uint32) []byte {
	return binary.BigEndian.AppendUint32([]byte{3, 0, 0, 0, byte(n % gameEntities), 0, 0}, n)
}

// tellGame makes a server send R-Type messages, in the form that the bridge expects.
func (w *world) tellGame(p *peer, server, client codec.Protocol, messages [][]byte) {
	w.t.Helper()
	for _, payload := range messages {
		wrapping := bridge.WrappingOf(server.Spec(), client.Spec(), &w.settings.Listeners[0].Route.Bridge)
		m := wrapping.Wrap(nil, codec.Message{Payload: payload, Mode: codec.Unreliable})
		if err := p.conn.Send(w.Now(), m); err != nil {
			w.t.Fatalf("%x: %v", payload, err)
		}
	}
}

// gameHeard returns the updates that a client has received.
func gameHeard(t *testing.T, p *player, client, server codec.Protocol, route *Route) (all [][]byte) {
	for _, m := range p.received() {
		err := bridge.WrappingOf(client.Spec(), server.Spec(), &route.Bridge).Unwrap(m, func(one codec.Message) {
			if len(one.Payload) > 0 && one.Payload[0] == 3 {
				all = append(all, one.Payload)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}
