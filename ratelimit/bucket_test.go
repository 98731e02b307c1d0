package ratelimit

import (
	"net/netip"
	"testing"
	"time"

	"tidegate/internal/source"
	"tidegate/internal/testkit/allocs"
)

func TestBucket(t *testing.T) {
	var b Bucket
	rate := Rate{PerSecond: 1000, Burst: 100} // bytes
	now := time.Hour
	for _, step := range []struct {
		what string
		wait time.Duration
		n    int
		want bool
	}{
		{"more than the burst", 0, 101, false},
		{"most of the burst", 0, 60, true},
		{"more than the rest", 0, 41, false},
		{"the rest", 0, 40, true},
		{"one more", 0, 1, false},
		{"10 ms later ten", 10 * time.Millisecond, 10, true},
		{"and no eleventh", 0, 1, false},
		{"a rest refills the burst", time.Minute, 100, true},
		{"but not beyond", 0, 1, false},
	} {
		now += step.wait
		if got := b.Take(now, rate, step.n); got != step.want {
			t.Fatalf("%s: Take = %v, want %v", step.what, got, step.want)
		}
	}
}

// TestBucketKeepsHighRates checks that a rate of 1 GiB per second, in datagrams, passes no more than that and hardly
// less.
func TestBucketKeepsHighRates(t *testing.T) {
	var b Bucket
	rate := Rate{PerSecond: 1 << 30, Burst: 4096}
	passed := 0
	for now := time.Duration(0); now < time.Second; now += 500 * time.Nanosecond {
		if b.Take(now, rate, 1200) {
			passed += 1200
		}
	}
	if passed > rate.PerSecond+rate.Burst || passed < rate.PerSecond*99/100 {
		t.Errorf("%d bytes passed in a second, want %d", passed, rate.PerSecond)
	}
}

// TestHashedBucketsHoldAgainstForgedSources checks that no number of other networks refills a network's bucket.
func TestHashedBucketsHoldAgainstForgedSources(t *testing.T) {
	c := NewHashedBuckets(7)
	rate := Rate{PerSecond: 1, Burst: 1}
	victim := netip.MustParsePrefix("192.0.2.0/24")
	if !c.Of(victim).Take(0, rate, 1) {
		t.Fatal("the first is refused")
	}
	passed := 0
	for i := range 200_000 {
		a := forged(i)
		if c.Of(netip.PrefixFrom(a, a.BitLen())).Take(0, rate, 1) {
			passed++
		}
	}
	if passed != hashedBuckets-1 {
		t.Errorf("%d of 200,000 passed, want one for each bucket but the victim's: %d", passed, hashedBuckets-1)
	}
	if c.Of(victim).Take(0, rate, 1) {
		t.Error("the flood made the victim's bound laxer")
	}
}

func TestSeenFilter(t *testing.T) {
	a := NewSeenFilter(7)
	one, other := netip.MustParseAddrPort("192.0.2.1:5000"), netip.MustParseAddrPort("192.0.2.1:5001")
	now := time.Hour
	for _, step := range []struct {
		what string
		wait time.Duration
		from netip.AddrPort
		want bool
	}{
		{"the first question", 0, one, false},
		{"another port is another source", 0, other, false},
		{"repeated after a second", time.Second, one, true},
		{"after the time that is promised", seenTime, other, true},
		{"long after", 2*seenTime + time.Millisecond, one, false},
		{"very long after", time.Hour, other, false},
		{"and again", time.Millisecond, other, true},
	} {
		now += step.wait
		if got := a.Seen(now, step.from); got != step.want {
			t.Fatalf("%s: Seen = %v, want %v", step.what, got, step.want)
		}
	}
}

// TestSeenFilterUnderForgedFlood checks the false positives under 600,000 forged sources per seenTime, and that an
// honest source is not forgotten.
func TestSeenFilterUnderForgedFlood(t *testing.T) {
	a := NewSeenFilter(7)
	honest := netip.MustParseAddrPort("192.0.2.1:5000")
	a.Seen(0, honest)
	const forgers = 600_000
	mistaken := 0
	for i := range forgers {
		if a.Seen(time.Duration(i)*seenTime/forgers, netip.AddrPortFrom(forged(i), uint16(i))) {
			mistaken++
		}
	}
	if mistaken > forgers/20 {
		t.Errorf("%d of %d forged sources seem to have asked before, want at most one of 20", mistaken, forgers)
	}
	if !a.Seen(seenTime, honest) {
		t.Error("an honest source was forgotten")
	}
}

func TestTakeDoesNotAllocate(t *testing.T) {
	c, a := NewHashedBuckets(1), NewSeenFilter(1)
	a.Seen(0, netip.AddrPort{})
	i := 0
	if n := allocs.PerRun(1000, func() {
		i++
		ip := forged(i)
		c.Of(source.Of(ip).Network()).Take(time.Duration(i), Rate{1, 1}, 1)
		a.Seen(time.Duration(i), netip.AddrPortFrom(ip, 1))
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestLimiter(t *testing.T) {
	l := Limiter{Every: 50 * time.Millisecond, Burst: 2}
	now := time.Unix(1_700_000_000, 0)
	for _, step := range []struct {
		what string
		wait time.Duration
		want bool
	}{
		{"first of the burst", 0, true},
		{"second of the burst", 0, true},
		{"beyond the burst", 0, false},
		{"just too early", 49 * time.Millisecond, false},
		{"one refilled", time.Millisecond, true},
		{"and no more", 0, false},
		{"a long rest refills the burst", time.Hour, true},
		{"the second of it", 0, true},
		{"but not beyond", 0, false},
	} {
		now = now.Add(step.wait)
		if got := l.Allow(now); got != step.want {
			t.Fatalf("%s: Allow = %v, want %v", step.what, got, step.want)
		}
	}
}

func TestZeroBurstPassesOne(t *testing.T) {
	l := Limiter{Every: time.Second}
	now := time.Unix(1_700_000_000, 0)
	if !l.Allow(now) || l.Allow(now) || !l.Allow(now.Add(time.Second)) {
		t.Fatal("want one a second")
	}
}
