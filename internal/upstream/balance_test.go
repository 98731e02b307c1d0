package upstream

import (
	"net/netip"
	"testing"
	"time"

	"tidegate/internal/policy"
)

func TestLeastSessions(t *testing.T) {
	p := New(targetsAt(a, b), Options{})
	first := pick(t, p, now, a)
	pick(t, p, now, b)
	pick(t, p, now, a)
	p.Release(first)
	p.Release(first)
	pick(t, p, now, a)
	if got := status(t, p, now, a).Sessions; got != 1 {
		t.Fatalf("sessions = %d, want 1", got)
	}
}

func TestLeastSessionsForTheirWeight(t *testing.T) {
	p := New([]Target{{Addr: a, Weight: 3}, {Addr: b}}, Options{})
	for range 400 {
		p.Pick(now, client, nil)
	}
	if x, y := status(t, p, now, a).Sessions, status(t, p, now, b).Sessions; x != 300 || y != 100 {
		t.Errorf("%d and %d sessions, want 300 and 100", x, y)
	}
}

func TestRoundRobin(t *testing.T) {
	p := New(targetsAt(a, b), Options{Balance: policy.RoundRobin})
	p.Release(pick(t, p, now, a))
	p.Release(pick(t, p, now, b))
	p.Release(pick(t, p, now, a))
}

func TestWeighted(t *testing.T) {
	p := New([]Target{{Addr: a, Weight: 3}, {Addr: b}, {Addr: c}}, Options{Balance: policy.Weighted})
	for range 3 {
		for _, want := range []netip.AddrPort{a, b, a, c, a} {
			p.Release(pick(t, p, now, want))
		}
	}
	_ = p.Drain(now, a, true)
	for _, want := range []netip.AddrPort{b, c, b, c} {
		pick(t, p, now, want)
	}
}

// TestPeek looks at each turn before it is taken, as a NetherNet client asks before it joins.
func TestPeek(t *testing.T) {
	for balance, turns := range map[policy.Balance][]netip.AddrPort{
		policy.RoundRobin: {a, b, a, b}, policy.Weighted: {a, b, a, a, b, a},
	} {
		p := New([]Target{{Addr: a, Weight: 2}, {Addr: b}}, Options{Balance: balance})
		for _, want := range turns {
			for range 3 {
				if got := p.Peek(now, client, nil); got == nil || got.Addr != want {
					t.Fatalf("balance %v: Peek = %v, want %v", balance, got, want)
				}
			}
			pick(t, p, now, want)
		}
	}
}

// TestHash checks the spread of clients by weight. A client keeps its server, and only the clients of a removed
// server move.
func TestHash(t *testing.T) {
	targets := []Target{{Addr: a}, {Addr: b, Weight: 2}, {Addr: c}}
	p := New(targets, Options{Balance: policy.Hash, RetryAfter: time.Hour})
	const clients = 10_000
	addrOf := func(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}) }
	before := make([]netip.AddrPort, clients)
	count := make(map[netip.AddrPort]int)
	for i := range before {
		before[i] = p.Pick(now, addrOf(i), nil).Addr
		count[before[i]]++
	}
	for addr, want := range map[netip.AddrPort]int{a: clients / 4, b: clients / 2, c: clients / 4} {
		if got := count[addr]; got < want*9/10 || got > want*11/10 {
			t.Errorf("%v has %d clients, want about %d", addr, got, want)
		}
	}
	p.Failed(p.Servers()[2], now, now, "silent")
	for i, was := range before {
		switch got := p.Pick(now, addrOf(i), nil).Addr; {
		case was == c && got == c:
			t.Fatal("a client was sent to the resting server")
		case was != c && got != was:
			t.Fatalf("client %d moved from %v to %v", i, was, got)
		}
	}
	p.Update(append(targets, Target{Addr: netip.MustParseAddrPort("192.0.2.4:19132")}), p.options)
	moved := 0
	for i, was := range before {
		if got := p.Pick(now.Add(time.Hour), addrOf(i), nil).Addr; got != was {
			moved++
			if got.Addr() != netip.MustParseAddr("192.0.2.4") {
				t.Fatalf("client %d moved to %v, not to the new server", i, got)
			}
		}
	}
	if want := clients / 5; moved < want*9/10 || moved > want*11/10 {
		t.Errorf("%d clients moved to the new server, want about %d", moved, want)
	}
}

// TestHashIsTheSameEverywhere fixes the results of the hash: several Tidegates in front of the same servers must
// agree.
func TestHashIsTheSameEverywhere(t *testing.T) {
	p := New(targetsAt(a, b, c), Options{Balance: policy.Hash})
	var got string
	for i := range 16 {
		got += string(rune('a' + p.Pick(now, netip.AddrFrom4([4]byte{203, 0, 113, byte(i)}), nil).Addr.Addr().As4()[3] - 1))
	}
	if want := "ccbaababcaaacaac"; got != want {
		t.Errorf("sixteen clients go to %s, want %s", got, want)
	}
}

// TestHashKnowsMappedAddresses checks that IPv4 and IPv4-mapped addresses of one client lead to the same server.
func TestHashKnowsMappedAddresses(t *testing.T) {
	if plain, mapped := hashOf(client), hashOf(netip.AddrFrom16(client.As16())); plain != mapped {
		t.Error("an IPv4 address and its mapped form differ")
	}
}
