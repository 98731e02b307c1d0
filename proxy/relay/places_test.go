package relay

import (
	"net/netip"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest/simnet"
	"tidegate/proxy/stats"
	"tidegate/session"
)

// TestOneAddressCannotTakeAllSessions has one address establish as many sessions as it gets, in a world with room for
// 60. A session beyond its share is told that the server is full. A player of another address joins at once, and a
// place that becomes free is given again.
func TestOneAddressCannotTakeAllSessions(t *testing.T) {
	for _, clients := range []codec.Protocol{riptide22(), raknet6()} {
		t.Run(clients.Spec().Name, func(t *testing.T) {
			w := newWorldWith(t, 1, simnet.Weather{Latency: 5 * time.Millisecond}, clients, defaultRoute(clients),
				func(s *Settings) {
					s.Limits = session.Limits{Sessions: 60, HalfOpen: 60, Address: 8, Network: 12}
				})
			var mine []*player
			from := func(host byte) *player {
				addr := netip.AddrFrom4([4]byte{192, 0, 2, host})
				p := w.joinFrom(netip.AddrPortFrom(addr, uint16(2000+len(mine))), codec.Hello{})
				mine = append(mine, p)
				w.await("answered", 20*time.Second, func() bool { return p.find(codec.Connected) != nil || p.gone() })
				return p
			}
			for i := range 14 {
				p := from(byte(1 + i/8))
				full := i == 8+4 || i == 8+5 // the second address, beyond the share of its network
				if got := p.gone(); got != full {
					t.Errorf("session %d: refused %v, want %v", i, got, full)
				}
			}
			if p := from(1); !p.gone() || p.find(codec.Disconnected).Reason != codec.ServerFull {
				t.Errorf("a ninth session of an address was not refused as full")
			}
			if w.drops(stats.DropSourceFull) == 0 {
				t.Error("nothing was counted")
			}
			w.connect(codec.Hello{})
			mine[0].conn.Close(w.Now(), codec.Goodbye{Reason: codec.Closed})
			w.Run(believed + time.Second)
			if p := from(1); p.gone() {
				t.Error("a place that became free was not given again")
			}
		})
	}
}
