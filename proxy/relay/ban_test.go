package relay

import (
	"net/netip"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest/simnet"
	"tidegate/internal/policy"
	"tidegate/proxy/stats"
	"tidegate/ratelimit"
)

// banTerms are the ban terms of tests. A ban covers one address only.
var banTerms = ratelimit.Terms{
	First: time.Minute, Longest: time.Hour, Memory: time.Hour,
}

func (w *world) bans() *ratelimit.Bans { return w.proxy.relay.guard.Bans }

// TestBannedNewcomersHearNothing asserts that a banned new client gets no reply and no session, and is counted.
func TestBannedNewcomersHearNothing(t *testing.T) {
	for _, clients := range []codec.Protocol{riptide22(), raknet6()} {
		w := newWorld(t, 1, simnet.Weather{}, clients, defaultRoute(riptide22()))
		w.bans().Add(ratelimit.Ban{Prefix: netip.PrefixFrom(playerAddr(0).Addr(), 24)})
		said := 0
		w.SetTap(func(from, _ netip.AddrPort, _ []byte) {
			if from == listenerAddr {
				said++
			}
		})
		w.join(codec.Hello{})
		w.Run(3 * time.Second)
		if said != 0 || w.proxy.relay.table.Len() != 0 || w.drops(stats.DropBanned) == 0 {
			t.Errorf("%s: %d datagrams to the banned, %d sessions, %d counted",
				clients.Spec().Name, said, w.proxy.relay.table.Len(), w.drops(stats.DropBanned))
		}
	}
}

// TestPlayersWhoAreBannedAreToldSo asserts that banned players get a goodbye in their own protocol. Other players
// stay.
func TestPlayersWhoAreBannedAreToldSo(t *testing.T) {
	for _, clients := range []codec.Protocol{riptide22(), raknet6()} {
		w := newWorld(t, 1, simnet.Weather{Latency: time.Millisecond}, clients, defaultRoute(riptide22()))
		p, other := w.connect(codec.Hello{}), w.connect(codec.Hello{})
		w.bans().Add(ratelimit.Ban{Prefix: netip.PrefixFrom(p.addr.Addr(), 32)})
		w.proxy.relay.EnforceBans(w.Now())
		w.await("told", believed, p.gone)
		w.await("forgotten", time.Second, func() bool { return w.proxy.relay.table.Len() == 1 })
		w.await("the server told", believed, w.servers[0].peers[0].gone)
		if other.gone() || !w.servers[0].peers[0].gone() {
			t.Errorf("%s: the other player is gone: %v; the server was told: %v",
				clients.Spec().Name, other.gone(), w.servers[0].peers[0].gone())
		}
	}
}

// TestWhoMayBeBanned asserts that only established sessions with proof of address may be banned.
func TestWhoMayBeBanned(t *testing.T) {
	for _, c := range []struct {
		what               string
		clients, upstreams codec.Protocol
		change             func(*Route)
		established, want  bool
	}{
		{"a RakNet player with a cookie", raknet6(), raknet6(), nil, true, true},
		{"one that has not joined yet", raknet6(), raknet6(), nil, false, false},
		{"a Riptide player who knows an ID of ours", riptide22(), raknet6(), nil, true, true},
		{"and with the proof first", riptide22(), riptide22(), func(r *Route) { r.Admit = policy.ProofFirst }, true, true},
		{"one who knows an ID that the server counted up to", riptide22(), riptide22(), nil, true, false},
	} {
		route := defaultRoute(c.upstreams)
		if c.change != nil {
			c.change(route)
		}
		w := newWorld(t, 1, simnet.Weather{Latency: time.Millisecond}, c.clients, route)
		w.servers[0].down = !c.established
		p := w.join(codec.Hello{})
		w.Run(2 * time.Second)
		e := w.proxy.relay.table.peek(w.keyOf(p))
		if e == nil || (e.Value.client.up && e.Value.upstream.up) != c.established {
			t.Fatalf("%s: session %+v", c.what, e)
		}
		if w.proxy.relay.applyVerdict(w.Now(), e, ratelimit.BanSource, "test") {
			t.Errorf("%s: may go on", c.what)
		}
		w.proxy.relay.settle(w.Now(), e)
		if got := w.bans().Find(w.Now(), p.addr.Addr()) != nil; got != c.want {
			t.Errorf("%s: banned: %v, want %v", c.what, got, c.want)
		}
		w.await("ended", 5*time.Second, p.gone)
	}
}
