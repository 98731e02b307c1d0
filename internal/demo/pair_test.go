package demo

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"tidegate/internal/config"
	"tidegate/internal/setup"
	"tidegate/proxy/relay"
)

// settings returns the settings of the pair's configuration.
func settings(p Pair) func(listen, server netip.AddrPort) (*relay.Settings, error) {
	return func(listen, server netip.AddrPort) (*relay.Settings, error) {
		s, err := config.NewStarter(p.From(), p.To())
		if err != nil {
			return nil, err
		}
		c, _, err := config.Parse("demo.toml", []byte(s.Needed(listen, server)), setup.Traits())
		if err != nil {
			return nil, err
		}
		return setup.Settings(c, 1, setup.NewSecrets()), nil
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
