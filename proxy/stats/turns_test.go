package stats

import (
	"testing"
	"time"
)

// TestLongestTurn asserts that the longest turn is shown for a minute at least and two at most, with the work that
// took the largest part of it.
func TestLongestTurn(t *testing.T) {
	start := time.Unix(1_700_000_000, 0)
	var turns Turns
	turn := func(after, receive, reload time.Duration) {
		turns.Part(WorkReceive, receive/2)
		turns.Part(WorkReload, reload)
		turns.Part(WorkReceive, receive/2)
		turns.End(start.Add(after), receive+reload)
	}
	const ms = time.Millisecond
	turn(0, 2*ms, 0)
	turn(time.Second, 4*ms, 5*ms)
	turn(2*time.Second, 6*ms, 0)
	for _, c := range []struct {
		after time.Duration
		want  LongTurn
	}{
		{2 * time.Second, LongTurn{9 * ms, WorkReload}},
		{time.Minute, LongTurn{9 * ms, WorkReload}},
		{2*time.Minute + 2*time.Second, LongTurn{}},
	} {
		if got := turns.Longest(start.Add(c.after)); got != c.want {
			t.Errorf("after %v: %v, want %v", c.after, got, c.want)
		}
	}
	turn(3*time.Minute, 2*ms, ms)
	turn(4*time.Minute, ms, 0)
	if got := turns.Longest(start.Add(4 * time.Minute)); got != (LongTurn{3 * ms, WorkReceive}) {
		t.Errorf("the turn of the window before: %v", got)
	}
	for w := range Works {
		if w.String() == "" {
			t.Errorf("work %d has no name", w)
		}
	}
}
