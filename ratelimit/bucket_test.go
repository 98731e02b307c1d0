package ratelimit

import (
	"net/netip"
	"testing"
	"time"
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

// TestBucketKeepsHighRates: a gigabyte a second, in datagrams, is neither more nor much less.
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

// TestCrowdHoldsAgainstForgedSources: no number of networks gives one back what it has spent.
func TestCrowdHoldsAgainstForgedSources(t *testing.T) {
	c := NewCrowd(7)
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
	if passed != crowdSize-1 {
		t.Errorf("%d of 200,000 passed, want one for each bucket but the victim's: %d", passed, crowdSize-1)
	}
	if c.Of(victim).Take(0, rate, 1) {
		t.Error("the flood made the victim's bound laxer")
	}
}

func TestAskers(t *testing.T) {
	a := NewAskers(7)
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
		{"after the time that is promised", askTime, other, true},
		{"long after", 2*askTime + time.Millisecond, one, false},
		{"very long after", time.Hour, other, false},
		{"and again", time.Millisecond, other, true},
	} {
		now += step.wait
		if got := a.Again(now, step.from); got != step.want {
			t.Fatalf("%s: Again = %v, want %v", step.what, got, step.want)
		}
	}
}

// TestAskersAmongForged: 600,000 forged sources in askTime pass for having asked in few cases, and make nobody forgotten.
func TestAskersAmongForged(t *testing.T) {
	a := NewAskers(7)
	honest := netip.MustParseAddrPort("192.0.2.1:5000")
	a.Again(0, honest)
	const forgers = 600_000
	mistaken := 0
	for i := range forgers {
		if a.Again(time.Duration(i)*askTime/forgers, netip.AddrPortFrom(forged(i), uint16(i))) {
			mistaken++
		}
	}
	if mistaken > forgers/20 {
		t.Errorf("%d of %d forged sources seem to have asked before, want at most one of 20", mistaken, forgers)
	}
	if !a.Again(askTime, honest) {
		t.Error("an honest source was forgotten")
	}
}

func TestTakeDoesNotAllocate(t *testing.T) {
	c, a := NewCrowd(1), NewAskers(1)
	a.Again(0, netip.AddrPort{})
	i := 0
	if n := testing.AllocsPerRun(1000, func() {
		i++
		ip := forged(i)
		c.Of(Networks{24, 64}.Of(ip)).Take(time.Duration(i), Rate{1, 1}, 1)
		a.Again(time.Duration(i), netip.AddrPortFrom(ip, 1))
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
