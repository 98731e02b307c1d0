package relay

import (
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest/simnet"
	"tidegate/proxy/stats"
)

// TestJoinInBadWeather asserts that every client joins, though each part of the handshake may be lost. The proxy
// sends little to strangers.
func TestJoinInBadWeather(t *testing.T) {
	for _, clients := range udpMembers(noRType) {
		t.Run(clients.Spec().Name, func(t *testing.T) {
			for seed := range uint64(50) {
				w := newWorld(t, seed, simnet.Weather{Loss: 0.05, Latency: 10 * time.Millisecond}, clients,
					matrixRoute(clients, raknet6()))
				p := w.join(codec.Hello{})
				if !w.RunUntil(20*time.Second, func() bool { return p.find(codec.Connected) != nil }) {
					t.Errorf("seed %d: not connected; %d datagrams for it were not sent", seed, w.drops(stats.DropUnproved))
				}
			}
		})
	}
}
