package relay

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest/simnet"
	"tidegate/codec/enet"
	"tidegate/internal/policy"
	"tidegate/internal/testkit/allocs"
	"tidegate/ratelimit"
)

// handshakeLimits are the default limits of handshakes.
func handshakeLimits() []ratelimit.Limit {
	return []ratelimit.Limit{
		limit(ratelimit.Handshakes, ratelimit.PerAddress, 10, 40, ratelimit.Drop),
		limit(ratelimit.Handshakes, ratelimit.PerNetwork, 100, 400, ratelimit.Drop),
	}
}

// sharedLimits are limits of each kind that nodes share.
func sharedLimits() []ratelimit.Limit {
	return append(handshakeLimits(),
		limit(ratelimit.Packets, ratelimit.PerAddress, 1000, 1000, ratelimit.Drop),
		limit(ratelimit.Bytes, ratelimit.PerNetwork, 1<<20, 1<<20, ratelimit.Drop),
		limit(ratelimit.ReliableMessages, ratelimit.PerAddress, 1000, 1000, ratelimit.Disconnect))
}

// newSharingWorld makes a world that shares its limits, and a function that returns their use since its last call.
func newSharingWorld(t *testing.T, p codec.Protocol, route *Route) (*world,
	func() map[ratelimit.Account]time.Duration) {
	w := newWorldWith(t, 1, simnet.Weather{Latency: 5 * time.Millisecond}, p, route, func(s *Settings) {
		s.Bounds = sharedLimits()
	})
	r := w.proxy.relay
	uses := func() map[ratelimit.Account]time.Duration {
		sums := make(map[ratelimit.Account]time.Duration)
		for _, s := range r.guard.Report(ratelimit.Peers{Nodes: 2, Every: 1}, r.identities.next) {
			sums[s.Account] = s.Used
		}
		return sums
	}
	uses()
	return w, uses
}

// TestPlayersWithoutProofSpendAtTheirNode lets players join and talk whose protocol or route has no proof of their
// address. None of their use is reported.
func TestPlayersWithoutProofSpendAtTheirNode(t *testing.T) {
	for _, c := range []struct {
		name     string
		protocol codec.Protocol
		mode     policy.Mode
	}{
		{"enet without numbers that a forger cannot guess", enet.New(enet.Options{}), policy.ModeTerminate},
		{"the client IDs of a Riptide server", riptide22(), policy.ModeTerminate},
		{"a relayed session", raknet6(), policy.ModeRelay},
	} {
		t.Run(c.name, func(t *testing.T) {
			route := defaultRoute(c.protocol)
			route.Mode = c.mode
			w, uses := newSharingWorld(t, c.protocol, route)
			p := w.connect(codec.Hello{})
			w.Run(time.Second)
			mode := codec.Reliable
			if !c.protocol.Spec().Modes.Has(mode) {
				mode = codec.ReliableOrdered
			}
			for range 20 {
				m := codec.Message{Payload: append([]byte{0x86}, make([]byte, 500)...), Mode: mode}
				m.HasID = c.protocol.Spec().IDs == codec.IDBeside
				w.send(&p.peer, m)
				w.Run(20 * time.Millisecond)
			}
			if got := uses(); len(got) != 0 {
				t.Errorf("reported are %v", got)
			}
		})
	}
}

// TestForgersSpendNoBudgetOfTheFleet asserts that only clients count that have proved their address: not strangers, not
// half-open sessions, and not datagrams that a connection refuses.
func TestForgersSpendNoBudgetOfTheFleet(t *testing.T) {
	for _, c := range []struct {
		name     string
		protocol codec.Protocol
		late     bool
	}{{"raknet", raknet6(), false}, {"enet", enet.New(enet.Options{Seed: [32]byte{1}}), true}} {
		t.Run(c.name, func(t *testing.T) {
			w, uses := newSharingWorld(t, c.protocol, defaultRoute(c.protocol))
			r := w.proxy.relay
			deaf := w.join(codec.Hello{})
			w.SetPath(listenerAddr, deaf.addr, simnet.Weather{Loss: 1})
			for i := range 50 {
				w.Inject(0, strangerAddr(i), listenerAddr, []byte{0x84, byte(i)})
			}
			w.Run(time.Second)
			if got := uses(); len(got) != 0 {
				t.Errorf("strangers have used %v", got)
			}
			p := w.connect(codec.Hello{})
			w.Run(time.Second)
			address := ratelimit.Account{Source: netip.PrefixFrom(p.addr.Addr(), 32), Per: ratelimit.PerAddress,
				Of: ratelimit.Handshakes, Late: c.late}
			network := address
			network.Per, network.Source = ratelimit.PerNetwork, netip.MustParsePrefix("10.2.0.0/24")
			if got := uses(); got[address] != 100*time.Millisecond || got[network] != 10*time.Millisecond {
				t.Errorf("a handshake has used %v", got)
			}
			garbage := make([]byte, 40)
			for range 200 {
				w.Inject(0, p.addr, listenerAddr, garbage)
			}
			w.Run(100 * time.Millisecond)
			packets, messages := address, address
			packets.Of, packets.Late = ratelimit.Packets, false
			messages.Of, messages.Late = ratelimit.ReliableMessages, false
			bytes := network
			bytes.Of, bytes.Late = ratelimit.Bytes, false
			if got := uses(); got[packets] > 20*time.Millisecond || got[messages] != 0 {
				t.Errorf("forged datagrams have used %v", got)
			}
			for range 20 {
				w.send(&p.peer, codec.Message{Payload: append([]byte{0x86}, make([]byte, 499)...), Mode: codec.ReliableOrdered})
				w.Run(20 * time.Millisecond)
			}
			got := uses()
			if got[packets] < 20*time.Millisecond || got[messages] != 20*time.Millisecond ||
				got[bytes] < 20*500*time.Second/(1<<20) {
				t.Errorf("20 messages have used %v", got)
			}
			charged := got[packets]
			r.guard.Charge(w.Now(), []ratelimit.Spending{{Account: packets, Used: charged}}, ratelimit.Peers{Nodes: 2})
			_, used, _ := r.table.peek(w.keyOf(p)).Value.meter.Buckets()
			if b := time.Duration(used[ratelimit.Packets]); b < charged {
				t.Errorf("%v is charged of %v", b, charged)
			}
		})
	}
}

// sharing makes a pipe whose player has proved its address, with limits of every kind.
func sharing(t testing.TB, shared bool) *pipe {
	p := newPipe(t, raknet6(), riptide22())
	fresh := *p.world.settings
	fresh.Bounds = allLimits()
	r := p.world.proxy.relay
	r.Reload(p.now, &fresh, nil)
	if shared {
		r.guard.Report(ratelimit.Peers{Nodes: 2}, r.identities.next)
	}
	return p
}

var sharedMessage = codec.Message{Payload: append([]byte{0x86}, make([]byte, 199)...), Mode: codec.Reliable}

// BenchmarkSharedLimits runs a round with all possible limits, alone and in a fleet that shares them.
func BenchmarkSharedLimits(b *testing.B) {
	for _, shared := range []bool{false, true} {
		b.Run(fmt.Sprintf("shared=%v", shared), func(b *testing.B) {
			p := sharing(b, shared)
			b.ReportAllocs()
			for b.Loop() {
				p.round(sharedMessage)
			}
		})
	}
}

func TestSharedLimitsDoNotAllocate(t *testing.T) {
	p := sharing(t, true)
	for range 100 {
		p.round(sharedMessage)
	}
	if n := allocs.PerRun(200, func() { p.round(sharedMessage) }); n != 0 {
		t.Errorf("%v allocations a round", n)
	}
	r := p.world.proxy.relay
	if got := r.guard.Report(ratelimit.Peers{Nodes: 2}, r.identities.next); len(got) != 6 {
		t.Errorf("%v, want three quantities of an address and of a network", got)
	}
}

// TestSpendingOfSiblings adds up the use of one address at two Relays, each with half of the rate, and charges both. A
// Relay begins to note use with the first call.
func TestSpendingOfSiblings(t *testing.T) {
	relays, now, peers := make([]*Relay, 2), time.Time{}, ratelimit.Peers{Nodes: 2, Every: time.Second}
	for i := range relays {
		w := newWorldWith(t, uint64(i+1), simnet.Weather{}, raknet6(), defaultRoute(raknet6()), func(s *Settings) {
			s.Bounds = handshakeLimits()
		})
		relays[i], now = w.proxy.relay, w.Now()
		relays[i].shard = shard{i, len(relays)}
	}
	from := netip.MustParseAddr("192.0.2.1")
	join := func(i, n int) (passed int) {
		for range n {
			if relays[i].mayAsk(now, relays[i].listeners[0], netip.AddrPortFrom(from, 5000), 100, true) {
				passed++
			}
		}
		return passed
	}
	take := func() (all []ratelimit.Spending) {
		for _, r := range relays {
			_ = ask(r, now, TakeSpending(peers, &all))
		}
		return ratelimit.Top(all, 1)
	}
	join(0, 3)
	if all := take(); len(all) != 0 {
		t.Errorf("noted before the limits were shared: %v", all)
	}
	join(0, 20) // of 10 a second for a Relay, so 20 for both
	join(1, 10)
	all := take()
	address := ratelimit.Account{Source: netip.PrefixFrom(from, 32), Of: ratelimit.Handshakes, Per: ratelimit.PerAddress}
	if len(all) != 1 || all[0] != (ratelimit.Spending{Account: address, Used: 1500 * time.Millisecond}) {
		t.Errorf("%v, want one and a half seconds", all)
	}
	if all := take(); len(all) != 0 {
		t.Errorf("told twice: %v", all)
	}
	for i, left := range []int{40 - 23 - 10, 40 - 10 - 10} {
		_ = ask(relays[i], now, ChargeSpending([]ratelimit.Spending{{Account: address, Used: time.Second}}, peers))
		if n := join(i, 40); n != left {
			t.Errorf("Relay %d passes %d, want %d", i, n, left)
		}
	}
}
