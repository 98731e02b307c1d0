package relay

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/enet"
	"tidegate/internal/testkit/allocs"
	"tidegate/internal/testkit/simnet"
	"tidegate/ratelimit"
)

// guardFleet are the guards of several nodes in virtual time. Each reports once a second, at a moment of its own.
type guardFleet struct {
	nodes  []*Relay
	peers  ratelimit.Peers
	now    time.Time
	ticks  int
	shared bool
	mail   []spendingMail // in the order of arrival
}

// spendingMail is a report on its way to a node.
type spendingMail struct {
	at   time.Time
	to   int
	uses []ratelimit.Spending
}

// Times of a guardFleet.
const (
	fleetStep = 10 * time.Millisecond
	fleetWay  = 50 * time.Millisecond // of a report through NATS
)

// handshakeLimits are the default limits of handshakes.
func handshakeLimits() []ratelimit.Limit {
	return []ratelimit.Limit{
		limit(ratelimit.Handshakes, ratelimit.PerAddress, 10, 40, ratelimit.Drop),
		limit(ratelimit.Handshakes, ratelimit.PerNetwork, 100, 400, ratelimit.Drop),
	}
}

func newGuardFleet(t *testing.T, nodes int, shared bool) *guardFleet {
	f := &guardFleet{peers: ratelimit.Peers{Nodes: nodes, Every: time.Second}, shared: shared}
	for i := range nodes {
		w := newWorldWith(t, uint64(i+1), simnet.Weather{}, raknet6(), defaultRoute(raknet6()), func(s *Settings) {
			s.Bounds, s.Networks = handshakeLimits(), ratelimit.Networks{V4: 24, V6: 64}
		})
		f.nodes, f.now = append(f.nodes, w.proxy.relay), w.Now()
		if shared {
			w.proxy.relay.guard.report(f.peers, w.proxy.relay.identities.next)
		}
	}
	return f
}

// asks returns how many of n new clients with proof of their address get in.
func (f *guardFleet) asks(node, n int, from netip.Addr) (passed int) {
	r := f.nodes[node]
	for range n {
		if r.guard.mayAsk(f.now, r.listeners[0], netip.AddrPortFrom(from, 5000), 100, true) {
			passed++
		}
	}
	return passed
}

// step lets time pass. The nodes exchange reports that are due.
func (f *guardFleet) step() {
	f.now = f.now.Add(fleetStep)
	f.ticks++
	if !f.shared {
		return
	}
	for i, r := range f.nodes {
		if (f.ticks+i*37)%int(f.peers.Every/fleetStep) != 0 {
			continue
		}
		r.guard.charge(f.now, nil, f.peers)
		uses := r.guard.report(f.peers, r.identities.next)
		for to := range f.nodes {
			if to != i && len(uses) > 0 {
				f.mail = append(f.mail, spendingMail{f.now.Add(fleetWay), to, uses})
			}
		}
	}
	for len(f.mail) > 0 && !f.mail[0].at.After(f.now) {
		f.nodes[f.mail[0].to].guard.charge(f.now, f.mail[0].uses, f.peers)
		f.mail = f.mail[1:]
	}
}

// attack is the number of attempts at a node in a step.
type attack func(node, tick int) int

// play lets one address attack for a time. It returns how many times the budget of one node has passed: in the whole
// time, and in its second half.
func (f *guardFleet) play(how attack, length time.Duration) (whole, late float64) {
	from := netip.MustParseAddr("192.0.2.66")
	passed, half := 0, 0
	steps := int(length / fleetStep)
	for tick := range steps {
		for node := range f.nodes {
			passed += f.asks(node, how(node, tick), from)
		}
		if tick == steps/2 {
			half = passed
		}
		f.step()
	}
	rate := handshakeLimits()[0].Rate
	of := float64(rate.PerSecond) * length.Seconds()
	return float64(passed) / (of + float64(rate.Burst)), float64(passed-half) / (of / 2)
}

// TestFleetLimitsHold measures how much an attacker gets that spreads over the nodes of a fleet, as a multiple of one
// node's budget. docs/fleet/shared.md has the figures.
func TestFleetLimitsHold(t *testing.T) {
	everywhere := func(int, int) int { return 5 }
	for _, c := range []struct {
		what  string
		nodes int
		how   attack
		whole float64 // the largest, with shared limits, of ten minutes
		late  float64 // of the last five
		alone float64 // the smallest, without
	}{
		{"all nodes at once", 3, everywhere, 1.05, 1.02, 2.9},
		{"all nodes at once", 10, everywhere, 1.1, 1.02, 9.9},
		{"one node after the other, a second each", 3, func(node, tick int) int {
			if tick/100%3 == node {
				return 50
			}
			return 0
		}, 1.05, 1.02, 1.9},
		{"bursts, then a rest of 5 s", 3, func(_, tick int) int {
			if tick%500 == 0 {
				return 100
			}
			return 0
		}, 1.05, 1.02, 2.2},
		{"one node mostly", 3, func(node, tick int) int {
			if node == 0 || tick%50 == 0 {
				return 1
			}
			return 0
		}, 1.05, 1.02, 1.3},
		{"two of ten nodes", 10, func(node, _ int) int { return 5 * max(0, 2-node) }, 1.05, 1.02, 1.9},
	} {
		t.Run(fmt.Sprintf("%s, %d nodes", c.what, c.nodes), func(t *testing.T) {
			_, alone := newGuardFleet(t, c.nodes, false).play(c.how, 10*time.Minute)
			f := newGuardFleet(t, c.nodes, true)
			minute, _ := newGuardFleet(t, c.nodes, true).play(c.how, time.Minute)
			whole, late := f.play(c.how, 10*time.Minute)
			t.Logf("not shared %.2f; shared %.3f in the first minute, %.3f in ten, %.3f in the last five", alone, minute,
				whole, late)
			if whole > c.whole || late > c.late || late < 0.8 || alone < c.alone {
				t.Errorf("want at most %v and %v, and %v without", c.whole, c.late, c.alone)
			}
		})
	}
}

// TestFleetLimitsSpareOthers lets an attacker spread over three nodes, and all nodes report lies about a player at full
// size. Other players at half of the limit lose nothing, and neither does the player at a third.
func TestFleetLimitsSpareOthers(t *testing.T) {
	f := newGuardFleet(t, 3, true)
	attacker, player := netip.MustParseAddr("192.0.2.66"), netip.MustParseAddr("198.51.100.1")
	slandered := netip.MustParseAddr("203.0.113.1")
	lies := []ratelimit.Spending{{Used: time.Hour, Account: ratelimit.Account{
		Source: netip.PrefixFrom(slandered, 32), Per: ratelimit.PerAddress, Of: ratelimit.Handshakes,
	}}}
	for tick := range 30_000 {
		for node := range f.nodes {
			f.asks(node, 5, attacker)
		}
		if tick%20 == 0 && f.asks(0, 1, player) != 1 { // 5 a second of 10
			t.Fatalf("tick %d: a player who uses half of the limit is refused", tick)
		}
		if tick%100 == 0 {
			for range 2 {
				f.nodes[1].guard.charge(f.now, lies, f.peers)
			}
			if f.asks(1, 3, slandered) != 3 { // 3 a second of 10
				t.Fatalf("tick %d: a player who uses a third of the limit is refused", tick)
			}
		}
		f.step()
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
		s.Bounds, s.Networks = sharedLimits(), ratelimit.Networks{V4: 24, V6: 64}
	})
	r := w.proxy.relay
	uses := func() map[ratelimit.Account]time.Duration {
		sums := make(map[ratelimit.Account]time.Duration)
		for _, s := range r.guard.report(ratelimit.Peers{Nodes: 2, Every: 1}, r.identities.next) {
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
		mode     Mode
	}{
		{"enet without numbers that a forger cannot guess", enet.New(enet.Options{}), ModeTerminate},
		{"the client IDs of a Riptide server", riptide22(), ModeTerminate},
		{"a relayed session", raknet6(), ModeRelay},
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
			r.guard.charge(w.Now(), []ratelimit.Spending{{Account: packets, Used: charged}}, ratelimit.Peers{Nodes: 2})
			if b := r.guard.addresses[p.addr.Addr()].buckets[ratelimit.Packets]; time.Duration(b) < charged {
				t.Errorf("%v is charged of %v", time.Duration(b), charged)
			}
		})
	}
}

// sharing makes a pipe whose player has proved its address, with limits of every kind.
func sharing(t testing.TB, shared bool) *pipe {
	p := newPipe(t, raknet6(), riptide22())
	fresh := *p.world.settings
	fresh.Bounds, fresh.Networks = allLimits(), ratelimit.Networks{V4: 24, V6: 64}
	r := p.world.proxy.relay
	r.Reload(p.now, &fresh, nil)
	if shared {
		r.guard.report(ratelimit.Peers{Nodes: 2}, r.identities.next)
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
	if got := r.guard.report(ratelimit.Peers{Nodes: 2}, r.identities.next); len(got) != 6 {
		t.Errorf("%v, want three quantities of an address and of a network", got)
	}
}

// TestSpendingOfSiblings adds up the use of one address at two Relays, each with half of the rate, and charges both. A
// Relay begins to note use with the first call.
func TestSpendingOfSiblings(t *testing.T) {
	f := newGuardFleet(t, 2, false)
	for i, r := range f.nodes {
		r.shard = shard{i, len(f.nodes)}
	}
	from := netip.MustParseAddr("192.0.2.1")
	take := func() (all []ratelimit.Spending) {
		for _, r := range f.nodes {
			all = append(all, r.Spending(f.peers)...)
		}
		return ratelimit.Top(all, 1)
	}
	f.asks(0, 3, from)
	if all := take(); len(all) != 0 {
		t.Errorf("noted before the limits were shared: %v", all)
	}
	f.asks(0, 20, from) // of 10 a second for a Relay, so 20 for both
	f.asks(1, 10, from)
	all := take()
	address := ratelimit.Account{Source: netip.PrefixFrom(from, 32), Of: ratelimit.Handshakes, Per: ratelimit.PerAddress}
	if len(all) != 1 || all[0] != (ratelimit.Spending{Account: address, Used: 1500 * time.Millisecond}) {
		t.Errorf("%v, want one and a half seconds", all)
	}
	if all := take(); len(all) != 0 {
		t.Errorf("told twice: %v", all)
	}
	for i, left := range []int{40 - 23 - 10, 40 - 10 - 10} {
		f.nodes[i].Charge(f.now, []ratelimit.Spending{{Account: address, Used: time.Second}}, f.peers)
		if n := f.asks(i, 40, from); n != left {
			t.Errorf("Relay %d passes %d, want %d", i, n, left)
		}
	}
}
