package proxy

import (
	"fmt"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/raknet"
	"tidegate/codec/rudp"
	"tidegate/internal/testkit/simnet"
)

// forgers are the client protocols of TestForgedPlayersJoinNoGame: all, and RakNet and RUDP without a proof of address.
var forgers = append([]member{
	{Protocol: raknet.New(raknet.Options{Cookies: raknet.CookiesNone})},
	{Protocol: rudp.New(rudp.Options{AppID: testApp})},
}, members(oneDialect)...)

// whyNoticed returns why a server's game notices a forged player, for the pairs where it does. The others hide it.
func whyNoticed(client, upstream codec.Protocol, admit Admit) string {
	switch {
	case isRakNet(client):
		return "" // a forged first datagram does not get as far as a question
	case client.Spec().Closed:
		return "R-Type's client is connected as soon as it is admitted: nothing that it says depends on what it was sent"
	case admit == ProofFirst:
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

// TestForgedPlayersJoinNoGame: a forger who never answers joins no game, with every pair of protocols. The server side
// of no forged session becomes connected, and the other players hear of none.
func TestForgedPlayersJoinNoGame(t *testing.T) {
	for _, client := range forgers {
		for _, upstream := range members(oneDialect) {
			for _, admit := range []Admit{UpstreamFirst, ProofFirst} {
				if admit == ProofFirst && client.Spec().IDs == codec.IDBeside && upstream.Spec().IDs == codec.IDBeside {
					continue // the configuration refuses it: the player must be told the server's client ID
				}
				why := whyNoticed(client, upstream, admit)
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

// forgedJoins lets a player join a game, and then forgers who do not answer: some send one datagram, the others all
// that a client sends which hears nothing. It counts the forged players that the server counts as connected.
func forgedJoins(t *testing.T, client, upstream member, admit Admit) (joined int) {
	route := matrixRoute(client.Protocol, upstream.Protocol)
	route.Upstream.Transport, route.Admit = upstream.transport, admit
	w := newWorldWith(t, 1, simnet.Weather{Latency: 5 * time.Millisecond}, client.Protocol, route, func(s *Settings) {
		s.Listeners[0].Transport = client.transport
	})
	game := w.servers[0]
	game.react = tellsNews(game)
	if upstream.Spec().Closed {
		game.react = greets(game.react)
	}
	witness := w.connectFirst(client, upstream, route)
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

// tellsNews is welcome, and tells all clients of each that joins or leaves, as Riptide's servers do.
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
