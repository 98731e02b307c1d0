package ratelimit

import (
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"tidegate/internal/source"
	"tidegate/internal/testkit/allocs"
)

var start = time.Unix(1_700_000_000, 0)

func TestBudget(t *testing.T) {
	b := NewBudget(Rates{Overall: 8, Network: 2}, 7)
	now := start
	for _, step := range []struct {
		what string
		wait time.Duration
		from string
		want bool
	}{
		{"first of a network", 0, "192.0.2.1", true},
		{"second, of its neighbour", 0, "192.0.2.200", true},
		{"third", 0, "192.0.2.1", false},
		{"the same network, mapped into IPv6", 0, "::ffff:192.0.2.9", false},
		{"another network", 0, "198.51.100.1", true},
		{"one of IPv6", 0, "2001:db8:1::1", true},
		{"its other end", 0, "2001:db8:1:ffff::1", true},
		{"its middle, beyond what it has", 0, "2001:db8:1:8000::1", false},
		{"the next network", 0, "2001:db8:2::1", true},
		{"and the next", 0, "2001:db8:3::1", true},
		{"and the next", 0, "2001:db8:4::1", true},
		{"all is spent", 0, "2001:db8:5::1", false},
		{"an eighth of a second later", 125 * time.Millisecond, "2001:db8:6::1", true},
		{"the first network waits for its half second", 0, "192.0.2.1", false},
		{"which is over", 375 * time.Millisecond, "192.0.2.1", true},
	} {
		now = now.Add(step.wait)
		if got := b.Allow(now, netip.MustParseAddr(step.from)); got != step.want {
			t.Fatalf("%s: Allow = %v, want %v", step.what, got, step.want)
		}
	}
}

// TestBudgetHoldsAgainstForgedSources checks that 200,000 networks together stay within the overall rate, and that they
// do not refill another network's bucket.
func TestBudgetHoldsAgainstForgedSources(t *testing.T) {
	b := NewBudget(Rates{Overall: 1_000_000, Network: 1}, 7)
	victim := netip.MustParseAddr("192.0.2.1")
	if !b.Allow(start, victim) {
		t.Fatal("the first is refused")
	}
	passed, used := 0, make(map[*Bucket]bool)
	for i := range 200_000 {
		from := forged(i)
		used[b.networks.Of(source.Of(from).Network())] = true
		if b.Allow(start, from) {
			passed++
		}
	}
	if passed != hashedBuckets-1 {
		t.Errorf("%d of 200,000 networks passed, want %d: one per bucket but the victim's", passed, hashedBuckets-1)
	}
	if len(used) != hashedBuckets {
		t.Errorf("%d buckets are used, want all %d", len(used), hashedBuckets)
	}
	if b.Allow(start, victim) {
		t.Error("the flood made the victim's bound laxer")
	}
	small := NewBudget(Rates{Overall: 50, Network: 50}, 7)
	passed = 0
	for i := range 100_000 {
		if small.Allow(start.Add(time.Duration(i)*10*time.Microsecond), forged(i)) {
			passed++
		}
	}
	if passed < 99 || passed > 100 {
		t.Errorf("%d passed in a second, want the burst of 50 and 50 more", passed)
	}
}

// forged returns an address of the i-th network. Every other one is IPv4.
func forged(i int) netip.Addr {
	if i%2 == 0 {
		var ip [4]byte
		binary.BigEndian.PutUint32(ip[:], 10<<24+uint32(i)<<8)
		return netip.AddrFrom4(ip)
	}
	var ip [16]byte
	binary.BigEndian.PutUint64(ip[:], 0x2001<<48+uint64(i)<<16)
	return netip.AddrFrom16(ip)
}

func TestSeedChangesBuckets(t *testing.T) {
	same := 0
	for i := range 1000 {
		if Hash(forged(i), 0, 1)%hashedBuckets == Hash(forged(i), 0, 2)%hashedBuckets {
			same++
		}
	}
	if same > 10 {
		t.Errorf("%d of 1000 networks have the same bucket with another seed", same)
	}
}

func TestBudgetAllowDoesNotAllocate(t *testing.T) {
	b := NewBudget(Rates{Overall: 10, Network: 10}, 1)
	i := 0
	if n := allocs.PerRun(1000, func() { i++; b.Allow(start, forged(i)) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
