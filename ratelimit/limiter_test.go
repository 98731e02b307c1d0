package ratelimit

import (
	"testing"
	"time"
)

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
