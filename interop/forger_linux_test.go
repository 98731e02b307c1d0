//go:build interop && linux

package interop_test

import (
	"fmt"
	"net/netip"
	"testing"
	"time"
)

// forgerRates are datagrams a second of each attacker. A slow one can do more harm than a fast one that repairs what it
// breaks.
var forgerRates = []float64{0.2, 1, 10, 100, 1000}

// TestForger sends forged datagrams in the names of all players to the proxy, and in the server's name to all sockets
// of the proxy. It sees no traffic. It spares R-Type, which has no defence.
func TestForger(t *testing.T) {
	raw, err := newRawSocket()
	if err != nil {
		t.Skipf("forged addresses need root: %v", err)
	}
	for _, rate := range forgerRates {
		t.Run(fmt.Sprintf("%v a second", rate), func(t *testing.T) {
			t.Parallel()
			underAttackOf(t, "", rate, func(h *hostile) { h.forge(raw) })
		})
	}
}

func (h *hostile) forge(raw *rawSocket) {
	server := netipAt(h.server.port)
	for !h.stop.Load() {
		var ways [][2]netip.AddrPort
		for _, door := range []netip.AddrPort{netipAt(h.port()), netipAt(h.between.ports["packets"])} {
			for _, player := range udpPeers(door.Port()) {
				ways = append(ways, [2]netip.AddrPort{player, door})
			}
		}
		for _, socket := range udpPeers(server.Port()) {
			ways = append(ways, [2]netip.AddrPort{server, socket})
		}
		for until := time.Now().Add(fresh); !h.stop.Load(); {
			if len(ways) > 0 {
				way := ways[h.rng.IntN(len(ways))]
				raw.send(way[0], way[1], forgedDatagram(h.rng))
			}
			if h.pause(); time.Now().After(until) {
				break
			}
		}
	}
}

// fresh is how long a forger trusts its list of sessions.
const fresh = 100 * time.Millisecond
