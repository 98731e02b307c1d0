package raknet

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"tidegate/codec"
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
		if got := w.judge(0, n, 1); got != want {
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
	w := reliableWindow{base: seq24Mask, next: seq24Mask}
	furthest := w.base.Add(maxReliableAhead - 1)
	for ; furthest.Sub(w.base) < maxReliableSpan; furthest = furthest.Add(maxReliableAhead) {
		if got := w.judge(0, furthest.Add(1), 1); got != refused {
			t.Errorf("judge of %d, with %d as the newest: %v, want refused", furthest.Add(1), w.next.Add(-1), got)
		}
		if got := w.judge(0, furthest, 1); got != fresh {
			t.Fatalf("judge of %d, with %d as the newest: %v, want fresh", furthest, w.next.Add(-1), got)
		}
		w.add(0, furthest, 1)
	}
	if got := w.judge(0, furthest, 1); got != refused || w.size() != maxReliableSpan {
		t.Errorf("judge beyond the window = %v, want refused; it keeps %d numbers", got, w.size())
	}
}

// TestHastyPeer: little may come behind a gap from a server that accepts us as go-raknet does.
func TestHastyPeer(t *testing.T) {
	for _, hasty := range []bool{false, true} {
		l := newConnected(t, Options{})
		c := l.client
		c.keepalive.Ordered = hasty
		base := c.receiver.reliable.base
		number, refusals := c.receiver.datagrams.next, 0
		for i := range maxHastySpan + 1 {
			o := capsule{mode: codec.Reliable, reliable: base.Add(1 + i), payload: gamePayload(8)}
			if errors.Is(c.Receive(l.now, o.append(appendDataHeader(nil, number.Add(i), false, false))), codec.ErrWindow) {
				refusals++
			}
		}
		if want := map[bool]int{true: 2}[hasty]; refusals != want {
			t.Errorf("hasty: %v, %d messages behind a gap are refused, want %d", hasty, refusals, want)
		}
	}
}

// TestFarMessageIsRepeated: a message far ahead counts if the peer repeats it for a while, and nothing else comes.
func TestFarMessageIsRepeated(t *testing.T) {
	const far = maxReliableAhead
	for _, test := range []struct {
		name  string
		comes func(w *reliableWindow)
		n     Seq24
		print uint32
		at    time.Duration
		want  verdict
	}{
		{"repeated", func(*reliableWindow) {}, far, 1, jamPatience + 1, fresh},
		{"too soon", func(*reliableWindow) {}, far, 1, jamPatience, refused},
		{"too late", func(*reliableWindow) {}, far, 1, 3 * jamPatience, refused},
		{"another number", func(*reliableWindow) {}, far + 1, 1, jamPatience + 1, refused},
		{"another content", func(*reliableWindow) {}, far, 3, jamPatience + 1, refused},
		{"another between", func(w *reliableWindow) { w.add(ms, 1, 1) }, far + 2, 1, jamPatience + 1, refused},
	} {
		var w reliableWindow
		if got := w.judge(1, far, 1); got != refused {
			t.Errorf("%s: first %v", test.name, got)
		}
		test.comes(&w)
		if got := w.judge(test.at, test.n, test.print); got != test.want {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
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
