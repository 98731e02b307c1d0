package admission

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"tidegate/proxy/stats"
	"tidegate/ratelimit"
)

// guardFleet are the Guards of several nodes in virtual time. Each reports once a second, at a moment of its own.
type guardFleet struct {
	nodes  []*Guard
	peers  ratelimit.Peers
	now    time.Time
	ticks  int
	shared bool
	random *rand.Rand
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
	limit := func(per ratelimit.Scope, rate int) ratelimit.Limit {
		return ratelimit.Limit{Of: ratelimit.Handshakes, Per: per, Rate: ratelimit.Rate{PerSecond: rate, Burst: 4 * rate},
			Verdict: ratelimit.Drop}
	}
	return []ratelimit.Limit{limit(ratelimit.PerAddress, 10), limit(ratelimit.PerNetwork, 100)}
}

func newGuardFleet(nodes int, shared bool) *guardFleet {
	f := &guardFleet{peers: ratelimit.Peers{Nodes: nodes, Every: time.Second}, shared: shared,
		now: time.Unix(1_000_000, 0), random: rand.New(rand.NewPCG(1, uint64(nodes)))}
	for range nodes {
		g := NewGuard(f.now, nil, f.random.Uint64(), new(Backlog), new(stats.Counters))
		g.SetLimits(handshakeLimits(), f.random.Uint64)
		if f.nodes = append(f.nodes, &g); shared {
			g.Report(f.peers, f.random.Uint64)
		}
	}
	return f
}

// asks returns how many of n new clients with proof of their address get in.
func (f *guardFleet) asks(node, n int, from netip.Addr) (passed int) {
	for range n {
		if !f.nodes[node].MayAsk(f.now, netip.AddrPortFrom(from, 5000), 100, true, false).Drops {
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
	for i, g := range f.nodes {
		if (f.ticks+i*37)%int(f.peers.Every/fleetStep) != 0 {
			continue
		}
		g.Charge(f.now, nil, f.peers)
		uses := g.Report(f.peers, f.random.Uint64)
		for to := range f.nodes {
			if to != i && len(uses) > 0 {
				f.mail = append(f.mail, spendingMail{f.now.Add(fleetWay), to, uses})
			}
		}
	}
	for len(f.mail) > 0 && !f.mail[0].at.After(f.now) {
		f.nodes[f.mail[0].to].Charge(f.now, f.mail[0].uses, f.peers)
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
			_, alone := newGuardFleet(c.nodes, false).play(c.how, 10*time.Minute)
			f := newGuardFleet(c.nodes, true)
			minute, _ := newGuardFleet(c.nodes, true).play(c.how, time.Minute)
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
	f := newGuardFleet(3, true)
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
				f.nodes[1].Charge(f.now, lies, f.peers)
			}
			if f.asks(1, 3, slandered) != 3 { // 3 a second of 10
				t.Fatalf("tick %d: a player who uses a third of the limit is refused", tick)
			}
		}
		f.step()
	}
}
