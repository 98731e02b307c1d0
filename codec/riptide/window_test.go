package riptide

import (
	"math/rand/v2"
	"testing"
	"time"
)

func TestWindowSteps(t *testing.T) {
	w := newWindow(1)
	for _, step := range []struct {
		what string
		s    seq
		want verdict
		last seq
		bits uint16
	}{
		{"the first claims number 0 too, as the library does", 1, fresh, 1, 0x0001},
		{"the first again", 1, duplicate, 1, 0x0001},
		{"a gap of one", 3, fresh, 3, 0x0006},
		{"the missing one", 2, fresh, 3, 0x0007},
		{"the missing one again", 2, duplicate, 3, 0x0007},
		{"a gap of 39, where the library goes wrong", 42, fresh, 42, 0x0000},
		{"from the middle of the gap", 33, fresh, 42, 0x0100},
		{"the same again", 33, duplicate, 42, 0x0100},
		{"the far end of the gap", 4, fresh, 42, 0x0100},
		{"long ago", 65535, duplicate, 42, 0x0100},
	} {
		if got := w.add(start, step.s, 1, time.Second); got != step.want {
			t.Fatalf("%s: verdict %d, want %d", step.what, got, step.want)
		}
		if a := w.acknowledge(step.s); a != (ack{step.last, step.bits, step.s}) {
			t.Fatalf("%s: acknowledged by %+v, want last %d bits %04x", step.what, a, step.last, step.bits)
		}
	}
}

// TestWindowShuffled: each number in a window-sized shuffle counts once, across the wrap, and none is forgotten.
func TestWindowShuffled(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	const base = seq(65000)
	w := newWindow(base)
	for round := range seq(20) {
		order := rng.Perm(windowSize)
		for pass, want := range []verdict{fresh, duplicate} {
			for _, i := range order {
				s := base + round*windowSize + seq(i)
				if got := w.add(start, s, 1, time.Second); got != want {
					t.Fatalf("round %d pass %d number %d: verdict %d, want %d", round, pass, s, got, want)
				}
			}
		}
		if w.hasHoles() {
			t.Fatalf("round %d: holes left, base %d last %d", round, w.base, w.last)
		}
	}
}

func TestWindowAcknowledgesHonestly(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	const base = seq(65500)
	w := newWindow(base)
	received := map[seq]bool{}
	for range 5000 {
		s := w.base + seq(rng.IntN(40))
		w.add(start, s, 1, time.Second)
		received[s] = true
		a := w.acknowledge(s)
		for i := range seq(16) {
			if set := a.bits&(1<<i) != 0; set && !received[a.last-i-1] && a.last-i-1 != base-1 {
				t.Fatalf("%+v claims %d, which was not received", a, a.last-i-1)
			}
		}
		delete(received, s-1000)
	}
}

// TestWindowBeyond: a number too far ahead is refused until the missing one arrives. A number that never arrives is
// given up in time.
func TestWindowBeyond(t *testing.T) {
	const patience = 5 * time.Second
	w := newWindow(1)
	if got := w.add(start, 1+windowSize, 1, patience); got != beyond {
		t.Fatalf("a leap with nothing missing: verdict %d", got)
	}
	if got := w.add(start.Add(time.Hour), 1+windowSize, 1, patience); got != beyond {
		t.Fatalf("a leap with nothing missing, much later: verdict %d", got)
	}
	w.add(start, 2, 1, patience) // 1 is missing
	for _, step := range []struct {
		what string
		at   time.Duration
		s    seq
		want verdict
	}{
		{"the last in the window", 0, windowSize, fresh},
		{"one beyond", 0, windowSize + 1, beyond},
		{"still", patience - 1, windowSize + 1, beyond},
		{"the missing one after all", patience - 1, 1, fresh},
		{"no longer beyond", patience - 1, windowSize + 1, fresh},
		{"far beyond", patience, windowSize + 3 + furthest, beyond},
		{"far beyond, much later", 3 * patience, windowSize + 3 + furthest, beyond},
		{"beyond again", 3 * patience, windowSize + 11, beyond},
		{"patience ends", 4 * patience, windowSize + 11, fresh},
		{"patience begins anew", 4 * patience, windowSize + 20, beyond},
		{"given up", 4 * patience, 3, duplicate},
		{"not given up", 4 * patience, windowSize + 9, fresh},
	} {
		if got := w.add(start.Add(step.at), step.s, 1, patience); got != step.want {
			t.Fatalf("%s: verdict %d, want %d", step.what, got, step.want)
		}
	}
}

func TestWindowRelaxes(t *testing.T) {
	w := newWindow(1)
	w.add(start, 2, 1, time.Second)
	if w.relax(); w.bits == nil {
		t.Fatal("memory given up while a number is missing")
	}
	w.add(start, 1, 1, time.Second)
	if w.relax(); w.bits != nil {
		t.Fatal("memory kept with nothing missing")
	}
	if got := w.add(start, 3, 1, time.Second); got != fresh {
		t.Fatalf("verdict %d after that, want fresh", got)
	}
}

// TestWindowTakesLateMessages has a number beyond the window give up a missing one. The beyond number may be forged,
// so the message of the peer still counts, once.
func TestWindowTakesLateMessages(t *testing.T) {
	const missing, newest, beyond = 5, 100, 5 + windowSize + 9
	w := newWindow(1)
	for s := seq(1); s <= newest; s++ {
		if s != missing {
			w.add(start, s, 1, time.Second)
		}
	}
	w.add(start, beyond, 1, time.Second)
	w.add(start.Add(time.Second), beyond, 1, time.Second)
	if w.base != newest+1 {
		t.Fatalf("base %d, want %d: the missing number given up", w.base, newest+1)
	}
	for _, want := range []verdict{fresh, duplicate} {
		if got := w.add(start, missing, 1, time.Second); got != want {
			t.Errorf("verdict %d on the late message, want %d", got, want)
		}
	}
}
