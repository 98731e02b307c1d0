package relay

import (
	"math/rand/v2"
	"net/netip"
	"os"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest"
	"tidegate/codec/codectest/simnet"
	"tidegate/proxy/bridge"
	"tidegate/proxy/stats"
)

// captured returns the unique datagrams of the codecs' captures for every protocol, up to a number from each file.
func captured(tb testing.TB, each int) [][]byte {
	tb.Helper()
	var all [][]byte
	for _, c := range codectest.Captures(tb, os.DirFS("../../codec")) {
		all = append(all, datagramsOf(c, each)...)
	}
	return all
}

func datagramsOf(c codectest.Capture, limit int) (all [][]byte) {
	for _, l := range c.Lines[:min(limit, len(c.Lines))] {
		if len(l.Datagram) > 0 {
			all = append(all, l.Datagram)
		}
	}
	return all
}

// both makes a proxy that admits players of both protocols, with one player of each.
func both(t *testing.T, seed uint64) (w *world, riptider, rakneter *player) {
	route := defaultRoute(raknet6())
	w = newWorld(t, seed, simnet.Weather{Latency: 2 * time.Millisecond}, riptide22(), route)
	l := w.proxy.relay.listeners[0]
	l.entries = []protocolEntry{
		{
			protocol: raknet6(), bridge: bridge.New(raknet6(), raknet6(), &route.Bridge), tally: new(stats.Tally),
			proof: codec.ProvedAccept,
		},
		{
			protocol: riptide22(), bridge: bridge.New(riptide22(), raknet6(), &route.Bridge), tally: new(stats.Tally),
			proof: codec.ProvedClientID,
		},
	}
	riptider = w.connect(codec.Hello{})
	w.clients = raknet6()
	return w, riptider, w.connect(codec.Hello{})
}

// stillPlays checks that a player's reliable message comes back.
func (w *world) stillPlays(p *player, m codec.Message) {
	w.t.Helper()
	before := len(p.received())
	w.send(&p.peer, m)
	w.await("answered after all that", 10*time.Second, func() bool { return len(p.received()) > before })
}

// TestHostileDatagramsLeaveTheOthersAlone sends random bytes and every truncation of real peers' datagrams from
// strangers. They harm no session and leave nothing behind.
func TestHostileDatagramsLeaveTheOthersAlone(t *testing.T) {
	each := 40
	if testing.Short() {
		each = 4
	}
	w, riptider, rakneter := both(t, 1)
	rng := rand.New(rand.NewPCG(1, 2))
	stranger := func() netip.AddrPort {
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte{198, 51, 100, byte(rng.Uint32())}), uint16(1+rng.IntN(60000)))
	}
	garbage := make([]byte, 100)
	for i, d := range captured(t, each) {
		for n := 1; n <= len(d); n += 1 + len(d)/60 {
			w.Inject(0, stranger(), listenerAddr, d[:n])
		}
		for j := range garbage {
			garbage[j] = byte(rng.Uint32())
		}
		w.Inject(0, stranger(), listenerAddr, garbage[:rng.IntN(len(garbage))])
		if i%20 == 0 {
			w.Run(10 * time.Millisecond)
		}
		if table := w.proxy.relay.table; table.HalfOpen() > 50 {
			t.Fatalf("%d half-open sessions", table.HalfOpen())
		}
	}
	w.Run(30 * time.Second)
	w.stillPlays(riptider, codec.Message{Payload: []byte("x"), Mode: codec.Reliable, ID: 1, HasID: true})
	w.stillPlays(rakneter, codec.Message{Payload: []byte{0x86}, Mode: codec.ReliableOrdered})
	if n := w.proxy.relay.table.Len(); n != 2 {
		t.Errorf("%d sessions are left, want the two players'", n)
	}
	if w.drops(stats.DropUnknownProtocol) == 0 || w.drops(stats.DropAskAgain) == 0 {
		t.Errorf("counted %d unknown, %d that must ask again; want some of both",
			w.drops(stats.DropUnknownProtocol), w.drops(stats.DropAskAgain))
	}
}

// TestHostileDatagramsLeaveEveryProtocolAlone sends every truncation of all protocols' real datagrams from strangers.
// They harm no session of any protocol and leave nothing behind.
func TestHostileDatagramsLeaveEveryProtocolAlone(t *testing.T) {
	datagrams := captured(t, 3)
	for _, p := range udpMembers(noRType) {
		t.Run(p.String(), func(t *testing.T) {
			route := matrixRoute(p, p)
			w := newWorld(t, 1, simnet.Weather{Latency: 2 * time.Millisecond}, p, route)
			player := w.connect(codec.Hello{})
			w.await("established", time.Second, func() bool { return len(w.servers[0].peers) == 1 })
			for i, d := range datagrams {
				for n := 1; n <= len(d); n += 1 + len(d)/40 {
					w.Inject(0, strangerAddr(i*100+n%100), listenerAddr, d[:n])
				}
				w.Inject(0, strangerAddr(i*100), listenerAddr, d)
				w.Run(time.Millisecond)
			}
			w.Run(30 * time.Second)
			w.say(&player.peer, p, p, route, 1)
			w.await("heard after all that", 10*time.Second, func() bool {
				return heard(t, w.servers[0].peers[0], p, p, route)[string(body(1))] == 1
			})
			if n := w.proxy.relay.table.Len(); n != 1 {
				t.Errorf("%d sessions are left, want the player's", n)
			}
		})
	}
}

// TestForgedDatagramsOfAPlayer sends truncated datagrams of another protocol from a RakNet player's address. They do
// not end its session. None of them is a goodbye that the wire cannot distinguish from a real one.
func TestForgedDatagramsOfAPlayer(t *testing.T) {
	w, _, rakneter := both(t, 1)
	foreign := codectest.LoadCapture(t, os.DirFS("../../codec/riptide/testdata"), "riptide-2.2.1/values-reliable.jsonl")
	for _, d := range datagramsOf(foreign, 100) {
		for n := range d {
			w.Inject(0, rakneter.addr, listenerAddr, d[:n])
		}
	}
	w.Run(time.Second)
	w.stillPlays(rakneter, codec.Message{Payload: []byte{0x86}, Mode: codec.ReliableOrdered})
}
