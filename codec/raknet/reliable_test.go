package raknet

import (
	"math/rand/v2"
	"testing"
)

// TestReliableWindow compares the window with a plain set, over the wrap-around.
func TestReliableWindow(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	start := Seq24(seq24Mask - 500)
	w := reliableWindow{base: start}
	seen := make(map[Seq24]bool)
	for range 20_000 {
		n := start.Add(rng.IntN(2000))
		want := fresh
		if seen[n] {
			want = stale
		}
		if got := w.judge(n, 1); got != want {
			t.Fatalf("judge(%d) = %v, want %v", n, got, want)
		}
		if want == fresh {
			w.add(0, n, 1)
			seen[n] = true
		}
	}
	if len(seen) == 2000 && w.base != start.Add(2000) {
		t.Errorf("base = %d, want %d", w.base, start.Add(2000))
	}
}

func TestReliableWindowIsBounded(t *testing.T) {
	w := reliableWindow{base: seq24Mask}
	furthest := w.base.Add(maxReliableAhead - 1)
	if got := w.judge(furthest.Add(1), 1); got != refused {
		t.Errorf("judge beyond the window = %v, want refused", got)
	}
	if got := w.judge(furthest, 1); got != fresh {
		t.Fatalf("judge at the window's end = %v, want fresh", got)
	}
	w.add(0, furthest, 1)
	if w.size() != maxReliableAhead {
		t.Errorf("the window keeps %d numbers, want %d", w.size(), maxReliableAhead)
	}
}

func TestReliableWindowInOrderNeedsNoMemory(t *testing.T) {
	w := reliableWindow{base: seq24Mask - 10}
	for range 100 {
		w.add(0, w.base, 1)
	}
	if len(w.seen) != 0 {
		t.Errorf("%d words in use, want none", len(w.seen))
	}
	w.add(0, w.base.Add(1), 1)
	if w.release(); len(w.seen) == 0 {
		t.Error("released the window with a missing message")
	}
	w.add(0, w.base, 1)
	if w.release(); len(w.seen) != 0 {
		t.Error("not released though nothing is missing")
	}
}
