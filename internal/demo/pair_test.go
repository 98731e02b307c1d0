package demo

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/internal/upstream"
	"tidegate/proxy/bridge"
	"tidegate/proxy/relay"
	"tidegate/session"
)

// settings returns the settings of the pair's configuration.
func settings(p Pair) func(listen, server netip.AddrPort) (*relay.Settings, error) {
	route := &relay.Route{
		Name:     "game",
		Upstream: &relay.Upstream{Name: "game", Protocol: p.to},
		Bridge:   bridge.Options{PacketID: packetByte, Queue: 4 << 20},
	}
	for _, s := range p.crossing() {
		switch s.setting {
		case `ordered = "fast"`:
			route.Bridge.Ordered = bridge.OrderedFast
		case `reliable = "resend"`:
			route.Bridge.Reliable = bridge.ReliableResend
		case `allow_lossy = true`:
			route.Bridge.AllowLossy = true
		case `envelope = "framed"`:
			route.Bridge.Envelope = bridge.EnvelopeFramed
		case `envelope = "raw"`:
			route.Bridge.Envelope = bridge.EnvelopeRaw
		}
	}
	return func(listen, server netip.AddrPort) (*relay.Settings, error) {
		route.Upstream.Servers = upstream.At(server)
		return &relay.Settings{
			Listeners: []relay.Listener{{
				Name: "players", Addr: listen, Protocols: []codec.Protocol{p.from}, Route: route,
			}},
			Limits:           session.Limits{Sessions: 100, HalfOpen: 100},
			HandshakeTimeout: 10 * time.Second,
			IdleTimeout:      30 * time.Second,
			DrainTimeout:     2 * time.Second,
		}, nil
	}
}

// TestLossyLink plays a pair of each promise over a link that loses datagrams.
func TestLossyLink(t *testing.T) {
	for _, names := range [][2]string{{"raknet", "riptide-2.0"}, {"riptide-2.2", "rudp"}, {"rudp", "raknet"}} {
		p, err := NewPair(names[0], names[1])
		if err != nil {
			t.Fatal(err)
		}
		t.Run(p.String(), func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			r, err := Run(t.Context(), Options{
				Pair: p, For: time.Second, Clients: 3, Loss: 0.05, Settings: settings(p), Out: &out,
			})
			if err != nil || !r.OK() || r.Link.Lost == 0 {
				t.Errorf("%v, %d datagrams lost\n%s", err, r.Link.Lost, out.String())
			}
		})
	}
}

func TestPromises(t *testing.T) {
	for _, c := range []struct {
		from, to string
		want     Promise
	}{
		{"riptide-2.2", "bedrock", ExactlyOnce},
		{"bedrock", "riptide-2.0", ExactlyOnce},
		{"raknet", "rudp", AtLeastOnce},
		{"rudp", "raknet", Lossy},
		{"riptide-2.0", "rtype", Lossy},
		{"rtype", "rudp", Lossy},
	} {
		p, err := NewPair(c.from, c.to)
		if err != nil || p.Promise() != c.want {
			t.Errorf("%s to %s: %v, error %v; want %v", c.from, c.to, p.Promise(), err, c.want)
		}
	}
}
