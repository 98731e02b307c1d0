//go:build interop

package interop_test

import (
	"testing"
)

// libenetContender is the library in C in the tests for all protocols, whose orders have no mode. The data of its
// Connect is 0: to RakNet servers other data is a password.
var libenetContender = contender{
	name: "libenet", transport: udp, protocol: "enet", language: language{bare: true, unreliable: true},
	server: libenetPeer.server,
	client: func(t *testing.T, port string) *peer {
		p := startScript(t, libenet, "enet_peer.py", port, "client", "0")
		do := p.do
		p.do = func(o order) error {
			o.Mode = "unreliable"
			if o.Reliable {
				o.Mode = "reliable"
			}
			return do(o)
		}
		return p
	},
}

// TestENetAndOthers puts a library of ENet opposite the libraries of the other protocols, in both roles.
func TestENetAndOthers(t *testing.T) {
	enet := libenetContender
	var pairs [][2]contender
	for _, other := range append([]contender{goServer, cloudburstServer, stockServer}, pytideServers...) {
		pairs = append(pairs, [2]contender{enet, other})
	}
	for _, other := range append([]contender{goClient, cloudburstClient, stockClient}, pytideClients...) {
		pairs = append(pairs, [2]contender{other, enet})
	}
	for _, pair := range pairs {
		from, to := pair[0], pair[1]
		t.Run(from.name+" to "+to.name, func(t *testing.T) {
			t.Parallel()
			client, between, server := meet(t, from, to)
			language := from.language
			language.largest = largestRiptide
			language.bridged = language.bare && to.protocol == "riptide-2.2"
			language.unnumbered = !language.bare && !language.ids
			talk(t, client, language)
			between.stop(t)
			client.await(t, "disconnected")
			server.await(t, "left")
		})
	}
}
