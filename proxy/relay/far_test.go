package relay

import (
	"net/netip"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest/simnet"
	"tidegate/codec/raknet"
	"tidegate/codec/rudp"
	"tidegate/internal/policy"
)

// TestServersKnowTheWholeRoundTrip: a Riptide server resends, and gives up, by the round trip that its client's
// heartbeats tell it. Ours tell that of the player, of any protocol.
func TestServersKnowTheWholeRoundTrip(t *testing.T) {
	for name, clients := range map[string]codec.Protocol{"riptide": riptide22(), "raknet": raknet.New(raknet.Options{})} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1, simnet.Weather{Latency: time.Millisecond}, clients, defaultRoute(riptide22()))
			p := w.connect(codec.Hello{})
			w.SetPath(p.addr, listenerAddr, simnet.Weather{Latency: 70 * time.Millisecond})
			w.SetPath(listenerAddr, p.addr, simnet.Weather{Latency: 70 * time.Millisecond})
			var told time.Duration
			w.SetTap(func(_, to netip.AddrPort, d []byte) {
				if to == serverAddr && len(d) == 4 && d[0]&15 == 4 { // Heartbeat
					told = time.Duration(uint16(d[1])>>4|uint16(d[2])<<4|uint16(d[3])<<12) * time.Millisecond
				}
			})
			for range 150 {
				m := codec.Message{Mode: codec.Reliable, HasID: true, ID: 1, Payload: []byte{0x90, 1}}
				_ = p.conn.Send(w.Now(), m)
				w.send(w.servers[0].peers[0], m)
				w.Run(200 * time.Millisecond)
			}
			if told < 130*time.Millisecond || told > 160*time.Millisecond {
				t.Errorf("the server is told a round trip of %v, want some 142 ms", told)
			}
		})
	}
}

// TestClientsHaveTheirServersPace: a RUDP client lives by the pace that an Accept tells it. It gets the pace of its
// servers, as soon as one has told it to any session.
func TestClientsHaveTheirServersPace(t *testing.T) {
	for admit, paces := range map[policy.Admit][]uint8{policy.UpstreamFirst: {20, 20}, policy.AdmitAuto: {100, 20, 20}} {
		route := defaultRoute(rudp.New(rudp.Options{AppID: 7, Rate: 20}))
		route.Admit = admit
		clients := rudp.New(rudp.Options{AppID: 7, Seed: [32]byte{1}})
		w := newWorld(t, 1, simnet.Weather{Latency: time.Millisecond}, clients, route)
		for i, want := range paces {
			p := w.connect(codec.Hello{})
			w.Run(200 * time.Millisecond)
			if got := p.conn.(codec.Paced).Pace(); got != want {
				t.Errorf("%v: player %d has a pace of %d, want %d", admit, i, got, want)
			}
		}
	}
}
