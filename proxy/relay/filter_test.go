package relay

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest/simnet"
	"tidegate/internal/filter"
	"tidegate/internal/policy"
	"tidegate/internal/testkit/allocs"
	"tidegate/proxy/relay/admission"
	"tidegate/proxy/stats"
	"tidegate/ratelimit"
)

func rules(t testing.TB, r filter.Rules) *filter.Set {
	t.Helper()
	set, err := filter.New(r)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// from returns a rule about the sources in a network. Players have addresses from 10.2.0.0 upwards.
func from(name, prefix string, v ratelimit.Verdict) filter.Source {
	return filter.Source{Name: name, Prefixes: []netip.Prefix{netip.MustParsePrefix(prefix)}, Verdict: v}
}

// TestSourceRulesDecideWhoComes asserts that a refused new client hears nothing, while others play.
func TestSourceRulesDecideWhoComes(t *testing.T) {
	for _, clients := range []codec.Protocol{riptide22(), raknet6()} {
		w := newWorldWith(t, 1, simnet.Weather{}, clients, defaultRoute(riptide22()), func(s *Settings) {
			s.Filter = rules(t, filter.Rules{Sources: []filter.Source{
				from("noted", "10.2.0.0/16", ratelimit.Observe),
				from("friend", "10.2.0.1/32", ratelimit.Pass),
				from("crowd", "10.2.0.0/24", ratelimit.Drop),
			}})
		})
		said := 0
		w.SetTap(func(from, to netip.AddrPort, _ []byte) {
			if from == listenerAddr && to == playerAddr(0) {
				said++
			}
		})
		w.join(codec.Hello{})
		w.connect(codec.Hello{})
		w.Run(time.Second)
		counts := w.proxy.relay.guard.RuleCounts()
		dropped := w.drops(stats.DropSourceRule)
		if said != 0 || dropped == 0 || w.proxy.relay.table.Len() != 1 {
			t.Errorf("%s: %d datagrams to who is kept out, %d dropped, %d sessions",
				clients.Spec().Name, said, dropped, w.proxy.relay.table.Len())
		}
		if counts[1].Matches == 0 || counts[2].Matches != dropped || counts[0].Matches != dropped+counts[1].Matches {
			t.Errorf("%s: counts %v with %d dropped", clients.Spec().Name, counts, dropped)
		}
	}
}

// TestNewRulesEndSessions asserts that new rules end the sessions of refused players with a goodbye. Counts of
// unchanged rules continue.
func TestNewRulesEndSessions(t *testing.T) {
	w := newWorld(t, 1, simnet.Weather{Latency: time.Millisecond}, riptide22(), defaultRoute(raknet6()))
	p, other := w.connect(codec.Hello{}), w.connect(codec.Hello{})
	keep := from("all", "0.0.0.0/0", ratelimit.Observe)
	w.reload(func(s *Settings) { s.Filter = rules(t, filter.Rules{Sources: []filter.Source{keep}}) })
	w.join(codec.Hello{})
	w.Run(time.Second)
	before := w.proxy.relay.guard.RuleCounts()[0].Matches
	if before == 0 {
		t.Fatal("the rules of a reload do nothing")
	}
	w.proxy.relay.filter(w.Now(), rules(t, filter.Rules{Sources: []filter.Source{
		from("out", p.addr.Addr().String()+"/32", ratelimit.Drop), keep,
	}}))
	w.await("told", time.Second, p.gone)
	w.echoes(other, "still here")
	want := []admission.RuleCount{{Kind: "source", Name: "out"}, {Kind: "source", Name: "all", Matches: before}}
	got := w.proxy.relay.guard.RuleCounts()
	got[0].Matches = 0 // the player asks whether its server is there
	if !slices.Equal(got, want) {
		t.Errorf("counts %v, want %v", got, want)
	}
}

// TestMessageRules sends one message that matches a rule, and one that matches none.
func TestMessageRules(t *testing.T) {
	for _, c := range []struct {
		verdict        ratelimit.Verdict
		direction      policy.Direction
		arrives, stays bool
		banned         bool
	}{
		{ratelimit.Observe, policy.FromClient, true, true, false},
		{ratelimit.Drop, policy.FromClient, false, true, false},
		{ratelimit.Drop, policy.FromUpstream, false, true, false}, // the echo
		{ratelimit.Disconnect, policy.FromClient, false, false, false},
		{ratelimit.BanSource, policy.FromClient, false, false, true},
	} {
		w := newWorldWith(t, 1, simnet.Weather{Latency: time.Millisecond}, riptide22(), defaultRoute(raknet6()),
			func(s *Settings) {
				rule := filter.Message{Name: "cheat", Direction: c.direction, MinSize: 50, Verdict: c.verdict}
				s.Filter = rules(t, filter.Rules{Messages: []filter.Message{rule}})
			})
		p := w.connect(codec.Hello{})
		w.echoes(p, "harmless")
		w.send(&p.peer, codec.Message{Payload: make([]byte, 60), Mode: codec.Reliable, ID: 9, HasID: true})
		w.Run(time.Second)
		if arrived := len(p.received()) == 2; arrived != c.arrives || p.gone() == c.stays {
			t.Errorf("%s: arrived %v, want %v; gone %v", c.verdict, arrived, c.arrives, p.gone())
		}
		if banned := w.bans().Find(w.Now(), p.addr.Addr()) != nil; banned != c.banned {
			t.Errorf("%s: banned %v, want %v", c.verdict, banned, c.banned)
		}
		if got := w.proxy.relay.guard.RuleCounts()[0].Matches; got != 1 {
			t.Errorf("%s: %d matches, want 1", c.verdict, got)
		}
		want := uint64(1)
		if c.arrives {
			want = 0
		}
		if got := w.drops(stats.DropMessageRule); got != want {
			t.Errorf("%s: %d dropped, want %d", c.verdict, got, want)
		}
	}
}

// TestRulesDoNotAllocate asserts that rules allocate nothing, neither for passing messages nor for datagrams of
// refused new clients.
func TestRulesDoNotAllocate(t *testing.T) {
	p := newPipe(t, riptide22(), raknet6())
	p.world.proxy.relay.filter(p.now, rules(t, filter.Rules{
		Sources: []filter.Source{from("out", "203.0.113.0/24", ratelimit.Drop)},
		Messages: []filter.Message{{Name: "rare", IDs: []filter.Range{{Low: 1, High: 1}}, Verdict: ratelimit.Drop},
			{Name: "fast", Every: time.Nanosecond, Burst: 1000, Verdict: ratelimit.Drop}},
	}))
	m := codec.Message{Mode: codec.Reliable, ID: 7, HasID: true, Payload: make([]byte, 200)}
	for range 100 {
		p.round(m)
	}
	if n := allocs.PerRun(200, func() { p.round(m) }); n != 0 {
		t.Errorf("%v allocations for a message", n)
	}
	l, stranger := p.world.proxy.relay.listeners[0], netip.MustParseAddrPort("203.0.113.9:4000")
	for range 10 {
		p.world.proxy.relay.recognise(p.now, l, nil, stranger, nil)
	}
	if n := allocs.PerRun(200, func() { p.world.proxy.relay.recognise(p.now, l, nil, stranger, nil) }); n != 0 {
		t.Errorf("%v allocations for a newcomer", n)
	}
}
