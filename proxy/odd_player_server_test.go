package proxy_test

import (
	"math/rand/v2"
	"testing"
	"time"

	gork "github.com/sandertv/go-raknet"

	"tidegate/codec"
	"tidegate/codec/raknet"
	"tidegate/internal/netio"
	"tidegate/internal/protocols"
	"tidegate/internal/registry"
	"tidegate/internal/testkit/oddplayer"
	"tidegate/proxy/relay"
)

// manglers change the datagrams of a protocol's odd players.
var manglers = map[string]func(*rand.Rand, []byte) []byte{
	"riptide-2.2": oddplayer.Riptide, "riptide-2.0": oddplayer.Riptide20, "enet": oddplayer.ENet, "rudp": oddplayer.RUDP,
}

// visits is how many odd players of each protocol come.
const visits = 12

// TestOddPlayerHarmsNoOther lets players of every protocol join a go-raknet server with its defaults, with data and
// messages that are valid but odd. The server blocks an address for one datagram that its parser cannot read, and all
// players have the proxy's. So a witness who waits would show each.
func TestOddPlayerHarmsNoOther(t *testing.T) {
	for _, d := range protocols.All {
		if d.Default().Spec().Closed {
			continue // R-Type carries its own instructions only
		}
		t.Run(d.Name, func(t *testing.T) {
			t.Parallel()
			odd := d.NewCalm(registry.Use{})
			if d.Evidence == registry.ByMagic {
				odd = raknet.New(raknet.Options{Name: d.Name, DialVersion: 11, Bits: true, MaxMessage: 1 << 20})
			}
			server, _ := gorkServer(t)
			r := startWith(t, netio.Auto, 1, bedrock(), bedrock(), server, func(s *relay.Settings) {
				s.Listeners[0].Route.Bridge.AllowLossy = true
				if d.Evidence != registry.ByMagic {
					s.Listeners[0].Protocols = append([]codec.Protocol{bedrock()}, d.NewCalm(registry.Use{}))
				}
			})
			others := []*gork.Conn{dialGork(t, r.addr)}
			attacked := make(chan struct{})
			joined := 0
			go func() {
				defer close(attacked)
				o := oddplayer.Options{Protocol: odd, At: r.addr, Mangle: manglers[d.Name]}
				if d.Evidence == registry.ByMagic {
					o.Mangle = oddplayer.RakNet
				}
				for seed := range uint64(visits) {
					if oddplayer.Visit(t, o, rand.New(rand.NewPCG(seed, 0))) {
						joined++
					}
				}
			}()
			longest := converse(t, others, attacked)
			begun := time.Now()
			longest = max(longest, time.Since(begun), converse(t, append(others, dialGork(t, r.addr)), attacked))
			t.Logf("%d of %d odd players got in; longest wait of another player: %v", joined, visits, longest)
			if longest > unnoticed || joined == 0 {
				t.Errorf("%d odd players in, another player waited for %v, want at most %v", joined, longest, unnoticed)
			}
		})
	}
}
