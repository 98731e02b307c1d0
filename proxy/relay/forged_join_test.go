package relay

import (
	"bytes"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest/simnet"
	"tidegate/codec/raknet"
	"tidegate/codec/rtype"
	"tidegate/codec/rudp"
	"tidegate/internal/policy"
)

// forgers are the client protocols of TestForgedPlayersJoinNoGame: all protocols, and variants with more or less
// proof.
var forgers = append([]member{
	{Protocol: raknet.New(raknet.Options{Cookies: raknet.CookiesNone})},
	{Protocol: rudp.New(rudp.Options{AppID: testApp})},
	{Protocol: rtype.New(rtype.Options{Dialect: rtype.Game32})},
	{Protocol: lastGame},
}, members(oneDialect)...)

// lastGame has a handshake that proves its clients' address, once the game's components are known.
var lastGame = rtype.New(rtype.Options{Dialect: rtype.GameLast, Seed: [32]byte{1}})

// whyNoticed returns why a server's game notices a forged player, for the pairs where it does. It returns "" for all
// other pairs.
func whyNoticed(client, upstream codec.Protocol, admit policy.Admit) string {
	switch {
	case isRakNet(client):
		return "" // a forged first datagram does not reach the question for a session
	case admit == policy.ProofFirst && client == lastGame:
		return ""
	case client.Spec().ServerFirst:
		return "its client may wait for the game's first messages, so its server must let it join before it answers"
	case admit == policy.ProofFirst:
		return ""
	case upstream.Spec().Closed:
		return "an R-Type server lets its client join with the first datagram"
	case isRUDP(upstream):
		return "a RUDP server's game accepts the request itself, and drops a client that is silent for 33 periods"
	}
	return ""
}

func isRakNet(p codec.Protocol) bool { return p.Spec().IDs == codec.IDFirstByte }
func isRUDP(p codec.Protocol) bool   { return p.Spec().Joins }

// TestForgedPlayersJoinNoGame asserts that a forger that never answers joins no game, with every pair of protocols.
// The server side of a forged session never becomes connected, and other players hear of none.
func TestForgedPlayersJoinNoGame(t *testing.T) {
	for _, client := range forgers {
		for _, upstream := range members(oneDialect) {
			for _, admit := range []policy.Admit{policy.UpstreamFirst, policy.ProofFirst} {
				if admit == policy.ProofFirst && client.Spec().IDs == codec.IDBeside && upstream.Spec().IDs == codec.IDBeside {
					continue // the configuration refuses it: the proxy must tell the player the server's client ID
				}
				why := whyNoticed(client.Protocol, upstream.Protocol, admit)
				t.Run(fmt.Sprintf("%v to %v, admit %d", client, upstream, admit), func(t *testing.T) {
					switch joined := forgedJoins(t, client, upstream, admit); {
					case why == "" && joined > 0:
						t.Errorf("the server's game let %d forged players join, want none", joined)
					case why != "" && joined == 0:
						t.Errorf("no forged player joined: this pair is no exception any more (%s)", why)
					}
				})
			}
		}
	}
}

// forgedJoins lets one player join a game, and then forgers that do not answer. Some forgers send one datagram. The
// others send all datagrams of a client that hears nothing. forgedJoins returns the number of forged players that the
// server counts as connected.
func forgedJoins(t *testing.T, client, upstream member, admit policy.Admit) (joined int) {
	route := matrixRoute(client.Protocol, upstream.Protocol)
	route.Upstream.Transport, route.Admit = upstream.transport, admit
	w := newWorldWith(t, 1, simnet.Weather{Latency: 5 * time.Millisecond}, client.Protocol, route, func(s *Settings) {
		s.Listeners[0].Transport = client.transport
	})
	game := w.servers[0]
	game.react = tellsNews(game)
	if upstream.Spec().Closed {
		inner := game.react
		game.react = func(now time.Time, p *peer, ev *codec.Event) {
			if inner(now, p, ev); ev.Kind == codec.Asked {
				w.tellGame(p, upstream, client, gameHead())
			}
		}
	}
	witness := w.connectFirst(client, upstream)
	w.await("joined", time.Second, func() bool {
		return len(game.peers) == 1 && game.peers[0].find(codec.Connected) != nil
	})
	w.Run(time.Second)
	for i := range 6 {
		forger := w.join(codec.Hello{})
		forger.deaf, forger.mute = true, i%2 == 0
		w.Run(100 * time.Millisecond)
	}
	w.Run(20 * time.Second)
	for _, p := range game.peers[1:] {
		if p.find(codec.Connected) != nil {
			joined++
		}
	}
	if witness.gone() || game.peers[0].gone() {
		t.Error("the player's session ended")
	}
	if joined == 0 && (witness.find(codec.Joined) != nil || witness.find(codec.Left) != nil) {
		t.Error("the player was told of a forged one")
	}
	return joined
}

// TestForgedSecondRequestJoinsNoGame covers RakNet without cookies. Nothing proves a client's address before its
// handshake ends. A forger of both requests makes the proxy ask the server, but no player joins.
func TestForgedSecondRequestJoinsNoGame(t *testing.T) {
	for _, upstream := range members(oneDialect) {
		if upstream.Spec().Closed || isRUDP(upstream) {
			continue // see whyNoticed
		}
		client := raknet.New(raknet.Options{Cookies: raknet.CookiesNone})
		route := defaultRoute(upstream.Protocol)
		route.Upstream.Transport = upstream.transport
		w := newWorld(t, 1, simnet.Weather{Latency: 5 * time.Millisecond}, client, route)
		var requests [][]byte
		w.SetTap(func(_, to netip.AddrPort, datagram []byte) {
			if to == listenerAddr && len(requests) < 2 {
				requests = append(requests, bytes.Clone(datagram))
			}
		})
		witness := w.connect(codec.Hello{})
		w.Run(time.Second)
		for i := range 6 {
			guid := requests[1][len(requests[1])-8:]
			guid[0] ^= byte(i + 1)
			w.Inject(0, playerAddr(100+i), listenerAddr, requests[0])
			w.Inject(10*time.Millisecond, playerAddr(100+i), listenerAddr, requests[1])
			w.Run(100 * time.Millisecond)
		}
		w.Run(20 * time.Second)
		if isRakNet(upstream) && len(w.servers[0].peers) == 1 {
			t.Errorf("%v: the server was not even asked", upstream)
		}
		for _, p := range w.servers[0].peers[1:] {
			if p.find(codec.Connected) != nil {
				t.Errorf("%v: a forged player joined", upstream)
			}
		}
		if witness.gone() {
			t.Errorf("%v: the player's session ended", upstream)
		}
	}
}

// tellsNews is welcome, and also tells all clients of each client that joins or leaves, as Riptide's servers do.
func tellsNews(g *game) func(time.Time, *peer, *codec.Event) {
	inner := welcome()
	return func(now time.Time, p *peer, ev *codec.Event) {
		inner(now, p, ev)
		kind := codec.Joined
		switch {
		case ev.Kind == codec.Disconnected && p.find(codec.Connected) != nil:
			kind = codec.Left
		case ev.Kind != codec.Connected:
			return
		}
		for _, other := range g.peers {
			if other != p {
				_ = other.conn.Announce(now, kind, 7) // RakNet, RUDP and R-Type have no such news
			}
		}
	}
}
