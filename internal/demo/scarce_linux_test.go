package demo

import (
	"net/netip"
	"testing"

	"github.com/rs/zerolog"

	"tidegate/internal/testkit/scarce"
)

// TestSetUpWithoutDescriptors fails each step of a demo's start once, with each kind of game server.
func TestSetUpWithoutDescriptors(t *testing.T) {
	for _, to := range []string{goRakNet, "riptide-2.2+tcp"} {
		pair, err := NewPair("riptide-2.2", to)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(to, func(t *testing.T) {
			o := Options{Pair: pair, Clients: 2, Loss: 0.1, Settings: settings(pair), Log: zerolog.Nop()}
			scarce.Descriptors(t, func() (func(), error) {
				s, err := setUp(&o)
				if err != nil {
					return nil, err
				}
				return s.tearDown, nil
			})
		})
		if to != goRakNet {
			continue // the rest is the same
		}
		t.Run("proxy elsewhere", func(t *testing.T) {
			o := GameOptions{
				Pair: pair, Servers: []netip.AddrPort{loopback, loopback}, Proxy: netip.MustParseAddrPort("127.0.0.1:9"),
				Clients: 2, Loss: 0.1,
			}
			scarce.Descriptors(t, func() (func(), error) {
				g, err := NewGame(o)
				if err != nil {
					return nil, err
				}
				return g.Stop, nil
			})
		})
	}
}
