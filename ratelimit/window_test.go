package ratelimit

import (
	"math/rand/v2"
	"testing"
	"time"
)

func TestWindow(t *testing.T) {
	now := start
	w := NewWindow(2, 10*time.Millisecond, now)
	for _, step := range []struct {
		what string
		wait time.Duration
		want bool
	}{
		{"first", 0, true},
		{"second", 4 * time.Millisecond, true},
		{"third within the span", 5 * time.Millisecond, false},
		{"the first has left it", time.Millisecond, true},
		{"the second has not", 3 * time.Millisecond, false},
		{"now it has", time.Millisecond, true},
		{"and nothing more", 0, false},
		{"after a rest", time.Hour, true},
		{"no more than the span lets", 0, true},
		{"even after a rest", 0, false},
	} {
		now = now.Add(step.wait)
		if got := w.Free(now); got != step.want {
			t.Fatalf("%s: free %v, want %v", step.what, got, step.want)
		}
		if step.want {
			w.Count(now)
		} else if next := w.Next(); !next.After(now) || !w.Free(next) || w.Free(next.Add(-1)) {
			t.Fatalf("%s: next in %v", step.what, next.Sub(now))
		}
	}
}

// TestWindowKnowsWhenItWasSent checks that events counted early and sent late count from the time of sending.
func TestWindowKnowsWhenItWasSent(t *testing.T) {
	w := NewWindow(3, 10*time.Millisecond, start)
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	w.Count(at(0))
	w.Sent(at(2))
	w.Count(at(4))
	w.Count(at(4))
	w.Sent(at(9))
	for _, want := range []int{12, 19, 19} {
		if next := w.Next(); !next.Equal(at(want)) {
			t.Fatalf("next in %v, want %d ms", next.Sub(start), want)
		}
		w.Count(w.Next())
	}
	for range 5 { // more than the Window remembers
		w.Count(at(40))
	}
	if w.Sent(at(41)); !w.Next().Equal(at(51)) {
		t.Errorf("next in %v, want 51 ms", w.Next().Sub(start))
	}
}

// TestWindowHoldsForAnySpan asks at random times, as often as events pass, and then checks every span.
func TestWindowHoldsForAnySpan(t *testing.T) {
	const n, span = 7, 10 * time.Millisecond
	random := rand.New(rand.NewPCG(1, 2))
	w, now := NewWindow(n, span, start), start
	var passed []time.Time
	for range 10_000 {
		now = now.Add(time.Duration(random.Int64N(int64(3 * time.Millisecond))))
		for range random.IntN(6) {
			if w.Free(now) {
				w.Count(now)
				passed = append(passed, now)
			}
		}
	}
	for i := n; i < len(passed); i++ {
		if within := passed[i].Sub(passed[i-n]); within < span {
			t.Fatalf("%d events within %v", n+1, within)
		}
	}
	if most := int(now.Sub(start)/span+1) * n; len(passed) < most*8/10 {
		t.Errorf("%d of at most %d passed: not the whole of it can be used", len(passed), most)
	}
}
