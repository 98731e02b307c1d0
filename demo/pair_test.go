package demo

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/proxy"
	"tidegate/session"
)

// settings are those of the pair's configuration.
func settings(p Pair) func(listen, server netip.AddrPort) (*proxy.Settings, error) {
	route := &proxy.Route{
		Name:     "game",
		Upstream: &proxy.Upstream{Name: "game", Protocol: p.to},
		PacketID: packetByte,
		Queue:    4 << 20,
	}
	for _, s := range p.crossing() {
		switch s.setting {
		case `ordered = "fast"`:
			route.Ordered = proxy.OrderedFast
		case `reliable = "resend"`:
			route.Reliable = proxy.ReliableResend
		case `allow_lossy = true`:
			route.AllowLossy = true
		case `envelope = "framed"`:
			route.Envelope = proxy.EnvelopeFramed
		case `envelope = "raw"`:
			route.Envelope = proxy.EnvelopeRaw
		}
	}
	return func(listen, server netip.AddrPort) (*proxy.Settings, error) {
		route.Upstream.Servers = []netip.AddrPort{server}
		return &proxy.Settings{
			Listeners: []proxy.Listener{{
				Name: "players", Addr: listen, Protocols: []codec.Protocol{p.from}, Route: route,
			}},
			Limits:           session.Limits{Sessions: 100, HalfOpen: 100},
			HandshakeTimeout: 10 * time.Second,
			IdleTimeout:      30 * time.Second,
			DrainTimeout:     2 * time.Second,
		}, nil
	}
}

// TestEveryPair plays every pair of protocols over a clean link, a few at a time.
func TestEveryPair(t *testing.T) {
	places := make(chan struct{}, 2)
	for _, p := range Pairs() {
		t.Run(p.String(), func(t *testing.T) {
			t.Parallel()
			places <- struct{}{}
			defer func() { <-places }()
			var out strings.Builder
			r, err := Run(t.Context(), Options{
				Pair: p, For: time.Second, Clients: 2, Settings: settings(p), Out: &out,
			})
			if err != nil {
				t.Fatal(err)
			}
			if !r.OK() {
				t.Errorf("not OK:\n%s", out.String())
			}
		})
	}
}
