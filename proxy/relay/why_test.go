package relay

import (
	"net/netip"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest/simnet"
	"tidegate/internal/filter"
	"tidegate/proxy/stats"
	"tidegate/ratelimit"
)

// TestWhy asks about addresses with a rule, a ban, a limit, a session and drops.
func TestWhy(t *testing.T) {
	w := newWorldWith(t, 1, simnet.Weather{Latency: time.Millisecond}, riptide22(), defaultRoute(raknet6()),
		func(s *Settings) {
			s.Filter = rules(t, filter.Rules{
				Sources: []filter.Source{
					from("noted", "10.2.0.0/16", ratelimit.Observe), from("friend", "10.2.0.0/32", ratelimit.Pass),
					from("crowd", "10.2.0.0/16", ratelimit.Drop),
				},
				Messages: []filter.Message{{Name: "long", MinSize: 50, Verdict: ratelimit.Drop}},
			})
			s.Bounds = []ratelimit.Limit{
				{Of: ratelimit.ReliableMessages, Per: ratelimit.PerSession, Rate: ratelimit.Rate{PerSecond: 1, Burst: 2},
					Verdict: ratelimit.Drop},
			}
		})
	friend := w.connect(codec.Hello{})
	w.join(codec.Hello{})
	w.Run(time.Second)
	relay := w.proxy.relay
	for range 2 {
		w.send(&friend.peer, codec.Message{Payload: make([]byte, 60), Mode: codec.Reliable, ID: 1, HasID: true})
	}
	w.Run(100 * time.Millisecond)

	why := whyOf(relay, w.Now(), playerAddr(0).Addr())
	if s := why.Sources; len(s) != 1 || s[0].Rule != "friend" || s[0].Verdict != ratelimit.Pass ||
		s[0].Observed[0] != "noted" {
		t.Errorf("sources %+v", s)
	}
	if len(why.Sessions) != 1 || why.Ban != nil {
		t.Errorf("sessions %v, ban %v", why.Sessions, why.Ban)
	}
	if d := why.Drops; len(d) != 1 || d[0].Reason != stats.DropMessageRule || d[0].Times != 2 || d[0].Bytes != 60 ||
		d[0].Cause.Error() != "rule long" {
		t.Errorf("drops %+v", d)
	}

	why = whyOf(relay, w.Now(), netip.AddrFrom16(playerAddr(1).Addr().As16())) // as an operator may write it
	if s := why.Sources; len(s) != 1 || s[0].Rule != "crowd" || s[0].Verdict != ratelimit.Drop {
		t.Errorf("sources %+v", s)
	}
	if d := why.Drops; len(d) != 1 || d[0].Reason != stats.DropSourceRule || d[0].Times == 0 ||
		d[0].From != playerAddr(1) {
		t.Errorf("drops %+v", d)
	}
	w.bans().Add(ratelimit.Ban{Prefix: netip.PrefixFrom(playerAddr(1).Addr(), 32), Reason: "cheats"})
	if why = whyOf(relay, w.Now(), playerAddr(1).Addr()); why.Ban == nil || why.Ban.Reason != "cheats" ||
		len(why.Sessions) != 0 {
		t.Errorf("ban %v, sessions %v", why.Ban, why.Sessions)
	}
}

// TestWhyTellsLimits asserts that Why tells the limits of strangers and of sessions. The question itself uses nothing
// of them.
func TestWhyTellsLimits(t *testing.T) {
	limits := []ratelimit.Limit{
		{Of: ratelimit.Packets, Per: ratelimit.PerAddress, Rate: ratelimit.Rate{PerSecond: 1, Burst: 3},
			Verdict: ratelimit.Drop},
	}
	w := newWorldWith(t, 1, simnet.Weather{}, raknet6(), defaultRoute(raknet6()), func(s *Settings) { s.Bounds = limits })
	relay, stranger := w.proxy.relay, netip.MustParseAddrPort("203.0.113.5:4000")
	for asked := range 4 {
		want := 0
		if asked == 3 {
			want = 1
		}
		for range 3 {
			if got := whyOf(relay, w.Now(), stranger.Addr()).Limits; len(got) != want {
				t.Fatalf("after %d datagrams: limits %+v, want %d", asked, got, want)
			}
		}
		relay.guard.MayEnter(w.Now(), relay.listeners[0].name, stranger, 1)
	}
	want := LimitWhy{"packets per address", ratelimit.Drop, 0}
	if got := whyOf(relay, w.Now(), stranger.Addr()).Limits[0]; got != want {
		t.Errorf("%+v", got)
	}
}
