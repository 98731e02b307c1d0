package relay

import (
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest/simnet"
	"tidegate/internal/policy"
	"tidegate/internal/registry"
	"tidegate/internal/stray"
)

// farNode is another node of the fleet, where a player's datagrams have arrived.
type farNode struct{ answers int }

func (f *farNode) PassOn(stray.Key, *stray.Datagram) bool { return false }
func (f *farNode) PassHere(*stray.Datagram)               {}
func (f *farNode) Answer(string, *stray.Datagram)         { f.answers++ }
func (f *farNode) Has(string, stray.Key) bool             { return true }

// atFarNode connects a player whose datagrams have arrived at another node, and are lost from now on. The other node
// does not reach the player.
func atFarNode(t *testing.T, p codec.Protocol) (*world, *player, *farNode) {
	t.Helper()
	w := newWorld(t, 1, simnet.Weather{Latency: time.Millisecond}, p, defaultRoute(p))
	c := w.connect(codec.Hello{})
	w.Run(5 * time.Second)
	w.SetPath(c.addr, listenerAddr, simnet.Weather{Loss: 1})
	w.Run(10 * time.Millisecond) // nothing is on its way
	far, r := new(farNode), w.proxy.relay
	r.ways.players.Join(far, stray.Secret{})
	r.ways.at = "far"
	r.follow(r.table.peek(w.keyOf(c)))
	r.ways.at = ""
	return w, c, far
}

// greeting returns a message of the game.
func greeting(p codec.Protocol) codec.Message {
	return codec.Message{Payload: []byte("\x86hello"), Mode: strongest(p), HasID: p.Spec().IDs == codec.IDBeside}
}

// TestSilentPlayerIsFound lets a player's path come to the node with its session. The player is silent, so answers
// still go to the other node. A message that is sent again also leaves here.
func TestSilentPlayerIsFound(t *testing.T) {
	for _, name := range []string{"raknet", "riptide-2.2", "enet"} {
		t.Run(name, func(t *testing.T) {
			p := named(name, registry.Use{})
			w, c, far := atFarNode(t, p)
			began := w.Now()
			w.send(w.servers[0].peers[0], greeting(p))
			w.await("at the other node", time.Second, func() bool { return far.answers > 0 })
			if len(c.received()) > 0 {
				t.Error("the first transmission leaves here, too")
			}
			w.await("here", time.Second, func() bool { return len(c.received()) > 0 })
			t.Logf("the message came after %v", w.Now().Sub(began))
		})
	}
}

// TestSilentPlayerIsFoundByOthers lets the path of all players lead to another node. One of them is silent, and hears a
// repeated message by the node where the others' datagrams arrive.
func TestSilentPlayerIsFoundByOthers(t *testing.T) {
	w := newWorld(t, 1, simnet.Weather{Latency: time.Millisecond}, riptide22(), defaultRoute(riptide22()))
	c, other := w.connect(codec.Hello{}), w.connect(codec.Hello{})
	w.Run(5 * time.Second)
	for _, p := range []*player{c, other} {
		w.SetPath(p.addr, listenerAddr, simnet.Weather{Loss: 1})
	}
	w.Run(10 * time.Millisecond)
	far, r := new(farNode), w.proxy.relay
	r.ways.players.Join(far, stray.Secret{})
	r.ways.at = "far"
	r.follow(r.table.peek(w.keyOf(other)))
	r.ways.at = ""
	w.Run(time.Second) // the other one may have been sent a message
	before := far.answers
	w.send(w.servers[0].peers[0], greeting(riptide22()))
	w.await("here", time.Second, func() bool { return len(c.received()) > 0 })
	if far.answers != before {
		t.Error("the first transmission leaves by the other node, too")
	}
	w.await("at the other node", time.Second, func() bool { return far.answers > before })
}

// TestSilentRelayedPlayerIsFound lets the path of all relayed players lead to another node, and then here. A silent one
// hears its server by the node where the others' datagrams arrive, and no longer in two ways when it has spoken.
func TestSilentRelayedPlayerIsFound(t *testing.T) {
	route := defaultRoute(riptide22())
	route.Mode = policy.ModeRelay
	w := newWorld(t, 1, simnet.Weather{Latency: time.Millisecond}, riptide22(), route)
	c, other := w.connect(codec.Hello{}), w.connect(codec.Hello{})
	w.Run(5 * time.Second)
	w.SetPath(c.addr, listenerAddr, simnet.Weather{Loss: 1})
	w.Run(10 * time.Millisecond)
	far, r := new(farNode), w.proxy.relay
	r.ways.players.Join(far, stray.Secret{})
	arrives := func(p *player, at string) {
		e := r.table.peek(w.keyOf(p))
		e.Value.heard, r.ways.at = e.Value.since(w.Now()), at
		r.follow(e)
		r.ways.at = ""
	}
	hears := func(wantHere bool, wantFar bool) {
		t.Helper()
		here, there := len(c.received()), far.answers
		w.send(w.servers[0].peers[0], greeting(riptide22()))
		w.Run(5 * time.Millisecond) // no repetition yet
		if got := len(c.received()) > here; got != wantHere {
			t.Errorf("the player hears its server here: %v", got)
		}
		if got := far.answers > there; got != wantFar {
			t.Errorf("the player hears its server at the other node: %v", got)
		}
	}
	arrives(other, "far")
	hears(true, false) // one datagram of another player may be an exception
	w.Run(settled)
	hears(true, true)
	arrives(c, "far")
	hears(false, true)
	w.Run(time.Millisecond)
	arrives(other, "")
	w.Run(settled)
	hears(true, true)
	arrives(c, "")
	w.Run(settled)
	hears(true, false)
}

// TestSilentPlayersAreExcused sends a message to a Riptide player while the player's datagrams are lost, as after a
// change of the path. In a fleet that follows players, the session stays.
func TestSilentPlayersAreExcused(t *testing.T) {
	for _, follows := range []bool{false, true} {
		w := newWorld(t, 1, simnet.Weather{Latency: time.Millisecond}, riptide22(), defaultRoute(riptide22()))
		c := w.connect(codec.Hello{})
		w.Run(time.Second)
		if follows {
			w.proxy.relay.ways.players.Join(new(farNode), stray.Secret{})
		}
		w.SetPath(c.addr, listenerAddr, simnet.Weather{Loss: 1})
		w.Run(2 * pathTime)
		game := w.servers[0].peers[0]
		w.send(game, greeting(riptide22()))
		w.Run(1500 * time.Millisecond)
		w.SetPath(c.addr, listenerAddr, simnet.Weather{Latency: time.Millisecond})
		w.Run(believed)
		if game.gone() == follows || follows && len(c.received()) != 1 {
			t.Errorf("follows %v: the session is over: %v; the player has got %d messages", follows, game.gone(),
				len(c.received()))
		}
	}
}

// TestMovedSessionAnswersByItsFirstNode moves a session to a node that does not reach the player yet. Answers leave by
// the node at which the player's datagrams arrive, also before the next one of these.
func TestMovedSessionAnswersByItsFirstNode(t *testing.T) {
	for _, mode := range []policy.Mode{policy.ModeTerminate, policy.ModeRelay} {
		route := defaultRoute(riptide22())
		route.Mode = mode
		w := newWorld(t, 1, simnet.Weather{Latency: time.Millisecond}, riptide22(), route)
		c := w.connect(codec.Hello{})
		w.Run(5 * time.Second)
		w.SetPath(c.addr, listenerAddr, simnet.Weather{Loss: 1})
		w.Run(10 * time.Millisecond)
		far, r, now := new(farNode), w.proxy.relay, w.Now()
		r.ways.players.Join(far, stray.Secret{})
		record, err := r.takeOut(now, r.table.peek(w.keyOf(c)))
		if err != nil {
			t.Fatal(err)
		}
		a, err := readArrival(now, record)
		if err == nil {
			err = a.putIn(now, r, "first")
		}
		if err != nil {
			t.Fatal(err)
		}
		w.send(w.servers[0].peers[0], greeting(riptide22()))
		w.await("at the first node", time.Second, func() bool { return far.answers > 0 })
		if f, ok := r.table.peek(w.keyOf(c)).Value.face.(*farFace); !ok || f.node != "first" || len(c.received()) > 0 {
			t.Errorf("mode %v: the way is %+v, and %d messages left here", mode, f, len(c.received()))
		}
	}
}
