package raknet

import "testing"

func TestDatagramWindow(t *testing.T) {
	start := Seq24(seq24Mask - 3)
	w := datagramWindow{next: start}
	for _, step := range []struct {
		what    string
		ahead   int // relative to start
		want    verdict
		missing int
	}{
		{"the first", 0, fresh, 0},
		{"the next", 1, fresh, 0},
		{"the same again", 1, stale, 0},
		{"over a hole and the wrap-around", 6, fresh, 4},
		{"into the hole", 3, fresh, 0},
		{"into the hole again", 3, stale, 0},
		{"as far ahead as may be", 6 + maxJump, fresh, maxMissing},
		{"out of memory", 6 + maxJump - datagramHistory, refused, 0},
		{"the oldest in memory", 7 + maxJump - datagramHistory, fresh, 0},
		{"too far ahead", 7 + 2*maxJump, refused, 0},
	} {
		n := start.Add(step.ahead)
		if got := w.judge(n); got != step.want {
			t.Fatalf("%s: judge = %v, want %v", step.what, got, step.want)
		}
		if step.want != fresh {
			continue
		}
		last, missing := w.add(n)
		if missing != step.missing || missing > 0 && last != n.Add(-1) {
			t.Errorf("%s: %d missing up to %d, want %d up to %d", step.what, missing, last, step.missing, n.Add(-1))
		}
	}
}

func TestDatagramWindowForgets(t *testing.T) {
	w := datagramWindow{next: 5}
	w.add(5)
	w.clear(5)
	if got := w.judge(5); got != fresh {
		t.Errorf("judge = %v after forget, want fresh", got)
	}
}
