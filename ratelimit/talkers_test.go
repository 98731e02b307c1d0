package ratelimit

import (
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"tidegate/internal/testkit/allocs"
)

// accountOf returns the handshakes of an address.
func accountOf(a netip.Addr) Account {
	return Account{Source: netip.PrefixFrom(a, a.BitLen()), Of: Handshakes, Per: PerAddress}
}

// TestTalkers finds ten large accounts among 50,000 small ones. No account gets more than its own, and none loses more
// than an eighth of the amounts in its set.
func TestTalkers(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	talkers, rate := NewTalkers(7), Rate{PerSecond: 1000, Burst: 1000}
	used, inSet := make(map[Account]time.Duration), make(map[uint64]time.Duration)
	for i := range 200_000 {
		a := accountOf(forged(rng.IntN(50_000)))
		if i%4 == 0 {
			a = accountOf(forged(100_000 + rng.IntN(10)))
		}
		a.Late = a.Source.Addr().Is4()
		talkers.Note(a, rate, 1)
		used[a] += time.Millisecond
		inSet[talkers.hash(&a)%talkerSets] += time.Millisecond
	}
	found := make(map[Account]time.Duration)
	for _, s := range talkers.Take(nil, 0) {
		found[s.Account] = s.Used
		if s.Used > used[s.Account] {
			t.Errorf("%v has %v, of which it has used %v", s.Account, s.Used, used[s.Account])
		}
	}
	for a, own := range used {
		if most := inSet[talkers.hash(&a)%talkerSets] / talkerWays; own-found[a] > most {
			t.Errorf("%v has %v of %v, want to lose at most %v", a, found[a], own, most)
		}
	}
	if len(found) > talkerSets*talkerWays {
		t.Errorf("%d accounts in %d places", len(found), talkerSets*talkerWays)
	}
	for i, s := range Top(talkers.Take(nil, 0), 10) {
		t.Errorf("%d: %v is left", i, s)
	}
}

// TestTalkersTellAccountsApart counts each kind of a source's amounts for itself, and leaves out small amounts.
func TestTalkersTellAccountsApart(t *testing.T) {
	talkers := NewTalkers(7)
	a := accountOf(netip.MustParseAddr("192.0.2.1"))
	late, bytes, network := a, a, a
	late.Late, bytes.Of = true, Bytes
	network.Per, network.Source = PerNetwork, netip.MustParsePrefix("192.0.2.0/24")
	for range 3 {
		talkers.Note(a, Rate{PerSecond: 10}, 1)
		talkers.Note(late, Rate{PerSecond: 20}, 2)
		talkers.Note(bytes, Rate{PerSecond: 1 << 20}, 1<<19)
		talkers.Note(network, Rate{PerSecond: 100}, 1)
	}
	all := Top(talkers.Take(nil, 100*time.Millisecond), 10)
	if len(all) != 3 || all[0] != (Spending{bytes, 1500 * time.Millisecond}) || all[1].Used != 300*time.Millisecond ||
		all[2].Used != 300*time.Millisecond {
		t.Errorf("%+v", all)
	}
	if two := Top(append(all, all...), 2); len(two) != 2 || two[0] != (Spending{bytes, 3 * time.Second}) {
		t.Errorf("of two loops: %+v", two)
	}
}

func TestTalkersDoNotAllocate(t *testing.T) {
	talkers, i := NewTalkers(7), 0
	if n := allocs.PerRun(1000, func() { i++; talkers.Note(accountOf(forged(i)), Rate{PerSecond: 10}, 1) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkTalkers(b *testing.B) {
	talkers := NewTalkers(7)
	var all [4096]Account
	for i := range all {
		all[i] = accountOf(forged(i))
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		talkers.Note(all[i%len(all)], Rate{PerSecond: 10}, 1)
	}
}
