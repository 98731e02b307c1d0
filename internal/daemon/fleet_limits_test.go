package daemon

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"tidegate/codec"
	"tidegate/internal/config"
	"tidegate/internal/fleet"
	"tidegate/internal/policy"
	"tidegate/internal/upstream"
	"tidegate/proxy"
	crossing "tidegate/proxy/bridge"
	"tidegate/proxy/relay"
	"tidegate/ratelimit"
	"tidegate/session"
)

// newLimitedGate starts a node by a configuration. An address may send burst datagrams, and hardly more afterwards.
func newLimitedGate(t *testing.T, name, nats string, a *arcade, burst int, shared bool) *gate {
	t.Helper()
	s, err := proxy.Listen(&relay.Settings{
		Listeners: []relay.Listener{{
			Name: "play", Addr: loopback, Protocols: []codec.Protocol{a.protocol}, Route: &relay.Route{
				Name: "arena", Bridge: crossing.Options{Ordered: policy.OrderedFast, PacketID: 0x86, Queue: 8 << 20},
				Upstream: &relay.Upstream{Name: "arena", Protocol: a.protocol, Servers: []upstream.Target{{Addr: a.game}}},
			},
		}},
		Limits: session.Limits{Sessions: 1000, HalfOpen: 1000},
		Bounds: []ratelimit.Limit{{
			Of: ratelimit.Packets, Per: ratelimit.PerAddress, Verdict: ratelimit.Drop,
			Rate: ratelimit.Rate{PerSecond: 1, Burst: burst},
		}},
		HandshakeTimeout: 10 * time.Second, IdleTimeout: time.Minute, DrainTimeout: time.Second,
	}, proxy.Options{Loops: 1, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	c := &config.Config{Fleet: config.Fleet{
		Name: "test", Node: name, Servers: []string{nats}, Replicas: 1, Limits: shared,
	}}
	games := fleetGames{Server: s}
	f, stop, err := startFleet(c, ratelimit.NewBans(ratelimit.Terms{}), games, fleet.Pending{}, nil, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		stop()
	})
	return &gate{fleetGames{Server: s}, f, s.Addrs()[0]}
}

// TestFleetLimits lets players of one address play at a node until its limit is used up, and then at another one. With
// fleet.limits, they find half of the limit used up there: the part that each of two nodes keeps to itself is left.
func TestFleetLimits(t *testing.T) {
	const burst, players = 2000, 10
	for _, shared := range []bool{false, true} {
		t.Run(fmt.Sprintf("limits = %v", shared), func(t *testing.T) {
			a, nats := newArcade(t, "raknet"), natsServer(t)
			nodes := []*gate{
				newLimitedGate(t, "one", nats, a, burst, shared), newLimitedGate(t, "two", nats, a, burst, shared),
			}
			a.until("known", func() bool { return nodes[0].fleet.Status().Nodes+nodes[1].fleet.Status().Nodes == 2 })
			passed := uint64(0)
			for i, n := range nodes {
				a.join(players, n.addr)
				a.until("limited", func() bool {
					f, err := n.Figures(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					c := f.Counters
					if breaches := c.Limits[ratelimit.Packets][ratelimit.PerAddress]; breaches.Enforced > 0 {
						passed += c.Clients.In.Messages - breaches.Enforced
						return true
					}
					return false
				})
				heard := nodes[1].fleet.Status().Limits.Received
				a.until("told", func() bool { // the last datagrams are in the second report, at the latest
					return !shared || i > 0 || nodes[1].fleet.Status().Limits.Received >= heard+2
				})
			}
			if s := nodes[1].fleet.Status().Limits; s.On != shared || shared != (s.Charged > 0) || s.Invalid+s.NoRoom > 0 {
				t.Errorf("%+v", s)
			}
			times := float64(passed) / burst
			t.Logf("%.2f budgets have passed", times)
			if !shared && times < 1.9 || shared && times > 1.7 {
				t.Errorf("%.2f budgets have passed, want about 2, and 1.5 with shared limits", times)
			}
		})
	}
}
