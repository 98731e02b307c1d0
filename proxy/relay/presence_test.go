package relay

import (
	"net/netip"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest"
	"tidegate/codec/codectest/simnet"
	"tidegate/codec/raknet"
	"tidegate/proxy/stats"
)

// TestSecondOfAnIdentityIsRefused asserts that a GUID plays once, as on a RakNet server. It is free again when its
// player has left.
func TestSecondOfAnIdentityIsRefused(t *testing.T) {
	w := newWorld(t, 1, simnet.Weather{Latency: 5 * time.Millisecond}, raknet6(), defaultRoute(riptide22()))
	first, other := w.connect(codec.Hello{Identity: 7}), w.connect(codec.Hello{Identity: 8})
	second := w.join(codec.Hello{Identity: 7})
	w.await("refused", time.Second, second.gone)
	if got := second.find(codec.Disconnected).Reason; got != codec.AlreadyConnected {
		t.Errorf("the second was told %v, want already-connected", got)
	}
	if first.gone() || other.gone() || w.drops(stats.DropKnown) == 0 || len(w.servers[0].peers) != 2 {
		t.Errorf("the first is gone: %v, another: %v; %d counted; the server saw %d", first.gone(), other.gone(),
			w.drops(stats.DropKnown), len(w.servers[0].peers))
	}
	first.conn.Close(w.Now(), codec.Goodbye{})
	w.await("the first has left", 5*time.Second, first.gone)
	w.Run(believed)
	w.connect(codec.Hello{Identity: 7})
}

// TestIdentityPlaysOnceOnAllLoops has two Relays that share their identities. A player of one Relay is refused by the
// other until it has left the first.
func TestIdentityPlaysOnceOnAllLoops(t *testing.T) {
	var presence Presence
	share := func(w *world) { w.proxy.relay.presence = &presence }
	weather := simnet.Weather{Latency: 5 * time.Millisecond}
	one := newWorld(t, 1, weather, raknet6(), defaultRoute(riptide22()))
	two := newWorld(t, 2, weather, raknet6(), defaultRoute(riptide22()))
	share(one)
	share(two)
	two.proxy.relay.serials = newSerials(1, 2)
	first := one.connect(codec.Hello{Identity: 7})
	second := two.join(codec.Hello{Identity: 7})
	two.await("refused", time.Second, second.gone)
	if got := second.find(codec.Disconnected).Reason; got != codec.AlreadyConnected || two.drops(stats.DropKnown) == 0 {
		t.Errorf("told %v, want already-connected", got)
	}
	first.conn.Close(one.Now(), codec.Goodbye{})
	one.await("the first has left", 5*time.Second, func() bool { return len(presence.sessions) == 0 })
	two.connect(codec.Hello{Identity: 7})
	if got := presence.sessions[presenceKey{"play", 7}]; got.session.Shard(2) != 1 {
		t.Errorf("session %v has the identity, want one of the other Relay", got)
	}
}

// TestClientReturnsOnAnotherLoop lets a client come to another Relay from another port of its host, while its session
// still waits for evidence of its goodbye. It hears nothing until that session has ended, and gets in. If the first
// client still plays, the second one is refused after a moment.
func TestClientReturnsOnAnotherLoop(t *testing.T) {
	for _, leaves := range []bool{true, false} {
		var presence Presence
		weather := simnet.Weather{Latency: 5 * time.Millisecond}
		one := newWorld(t, 1, weather, raknet6(), defaultRoute(riptide22()))
		two := newWorld(t, 2, weather, raknet6(), defaultRoute(riptide22()))
		one.proxy.relay.presence, two.proxy.relay.presence = &presence, &presence
		one.proxy.relay.shard, two.proxy.relay.shard = shard{0, 2}, shard{1, 2}
		one.proxy.relay.serials, two.proxy.relay.serials = newSerials(0, 2), newSerials(1, 2)
		first := one.connect(codec.Hello{Identity: 7})
		second := two.joinFrom(netip.AddrPortFrom(first.addr.Addr(), 6000), codec.Hello{Identity: 7})
		two.Run(300 * time.Millisecond)
		if second.gone() || second.find(codec.Connected) != nil || two.drops(stats.DropKnown) == 0 {
			t.Fatalf("leaves %v: the second is gone: %v", leaves, second.gone())
		}
		if !leaves {
			two.await("refused", 4*time.Second, second.gone)
			if got := second.find(codec.Disconnected).Reason; got != codec.AlreadyConnected {
				t.Errorf("told %v, want already-connected", got)
			}
			continue
		}
		first.conn.Close(one.Now(), codec.Goodbye{})
		one.await("the first has left", 5*time.Second, func() bool { return len(presence.sessions) == 0 })
		two.await("back", 2*time.Second, func() bool { return second.find(codec.Connected) != nil })
	}
}

// TestClientReturnsAtOnceAfterItsGoodbye lets a client leave, and return at once with its GUID from another port. The
// goodbye still waits for evidence then. A client of another host is no evidence, since the goodbye may be forged.
func TestClientReturnsAtOnceAfterItsGoodbye(t *testing.T) {
	w := newWorld(t, 1, simnet.Weather{Latency: 5 * time.Millisecond}, raknet6(), defaultRoute(raknet6()))
	plays, leaves := w.connect(codec.Hello{Identity: 7}), w.connect(codec.Hello{Identity: 8})
	w.Run(100 * time.Millisecond)
	forged := codectest.Unhex(t, "84e80300 00 0008 15")
	w.Inject(0, plays.addr, listenerAddr, forged)
	w.Inject(0, leaves.addr, listenerAddr, forged)
	leaves.deaf, leaves.mute, leaves.said = true, true, true
	w.Run(20 * time.Millisecond)
	again := w.joinFrom(netip.AddrPortFrom(leaves.addr.Addr(), 6000), codec.Hello{Identity: 8})
	thief := w.join(codec.Hello{Identity: 7})
	w.await("back", 200*time.Millisecond, func() bool { return again.find(codec.Connected) != nil })
	w.await("refused", 200*time.Millisecond, thief.gone)
	w.Run(believed)
	w.stillPlays(plays, codec.Message{Payload: []byte{0x86}, Mode: codec.ReliableOrdered})
	w.stillPlays(again, codec.Message{Payload: []byte{0x86}, Mode: codec.ReliableOrdered})
	if n := w.proxy.relay.table.Len(); n != 2 {
		t.Errorf("%d sessions, want 2", n)
	}
}

// TestClientReturnsFromAnotherPort lets a client fall silent without a goodbye, and return with its GUID from another
// port. Its old session ends once it does not answer. A live client answers, also one that says nothing itself, and a
// client of another host is no reason to ask.
func TestClientReturnsFromAnotherPort(t *testing.T) {
	w := newWorld(t, 1, simnet.Weather{Latency: 20 * time.Millisecond}, raknet6(), defaultRoute(raknet6()))
	plays, dies := w.connect(codec.Hello{Identity: 7}), w.connect(codec.Hello{Identity: 8})
	w.Run(time.Second)
	dies.deaf, dies.mute, dies.said = true, true, true
	begun := w.Now()
	w.Inject(0, dies.addr, listenerAddr, codectest.Unhex(t, "84f80300 00 0008 80")) // its last message
	w.Run(300 * time.Millisecond)
	again := w.joinFrom(netip.AddrPortFrom(dies.addr.Addr(), 6000), codec.Hello{Identity: 8})
	w.await("back", 4*time.Second, func() bool { return again.find(codec.Connected) != nil })
	t.Logf("back after %v", w.Now().Sub(begun))
	for i := range 20 { // of the host of the first client, for longer than RakNet's time-out
		w.joinFrom(netip.AddrPortFrom(plays.addr.Addr(), uint16(7000+i)), codec.Hello{Identity: 7})
		w.Run(time.Second)
	}
	w.stillPlays(plays, codec.Message{Payload: []byte{0x86}, Mode: codec.ReliableOrdered})
	w.stillPlays(again, codec.Message{Payload: []byte{0x86}, Mode: codec.ReliableOrdered})
	if n := w.proxy.relay.table.Len(); n != 2 {
		t.Errorf("%d sessions, want 2", n)
	}
}

// TestPresenceIsBounded asserts that there are as many identities as sessions, and none after the last session.
func TestPresenceIsBounded(t *testing.T) {
	w := newWorld(t, 1, simnet.Weather{}, raknet6(), defaultRoute(riptide22()))
	for i := range 20 {
		w.connect(codec.Hello{Identity: uint64(1 + i)})
	}
	r := w.proxy.relay
	if len(r.presence.sessions) != 20 || r.table.Len() != 20 {
		t.Errorf("%d identities of %d sessions, want 20", len(r.presence.sessions), r.table.Len())
	}
	r.Drain(w.Now())
	w.await("drained", 5*time.Second, r.Drained)
	if len(r.presence.sessions) != 0 {
		t.Errorf("%d identities of no session", len(r.presence.sessions))
	}
}

// TestClientReturnsAfterACrash lets a client return on its old port, long before its old connection would time out.
func TestClientReturnsAfterACrash(t *testing.T) {
	for _, c := range []struct {
		what     string
		clients  codec.Protocol
		identity uint64 // of the client that returns; it was 7
		returns  bool
	}{
		{"with its GUID", raknet6(), 7, true},
		{"with another GUID", raknet6(), 8, true},
		{"without proof", raknet.New(raknet.Options{Cookies: raknet.CookiesNone}), 7, false},
		{"as another without proof", raknet.New(raknet.Options{Cookies: raknet.CookiesNone}), 8, false},
	} {
		t.Run(c.what, func(t *testing.T) {
			w := newWorld(t, 1, simnet.Weather{Latency: 5 * time.Millisecond}, c.clients, defaultRoute(raknet6()))
			p := w.connect(codec.Hello{Identity: 7})
			w.Run(100 * time.Millisecond)
			p.conn = c.clients.Dial(w.Now(), listenerAddr, codec.Hello{Identity: c.identity})
			p.events = nil
			w.await("an answer", 3*time.Second, func() bool { return p.gone() || p.find(codec.Connected) != nil })
			if !c.returns {
				if !p.gone() || p.find(codec.Disconnected).Reason != codec.AlreadyConnected || w.servers[0].peers[0].gone() {
					t.Errorf("saw %v; the old session is gone: %v", p.events, w.servers[0].peers[0].gone())
				}
				return
			}
			peers := w.servers[0].peers
			w.await("the server told", believed, peers[0].gone)
			if p.gone() || len(peers) != 2 || !peers[0].gone() || peers[1].gone() {
				t.Errorf("the player is gone: %v; the server saw %d peers", p.gone(), len(peers))
			}
		})
	}
}
