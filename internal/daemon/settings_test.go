package daemon

import "testing"

func TestLoopCount(t *testing.T) {
	for _, c := range []struct {
		asked, cores int
		shares       bool
		want         int
	}{{0, 1, true, 1}, {0, 2, true, 1}, {0, 8, true, 4}, {3, 2, true, 3}, {0, 8, false, 1}, {3, 8, false, 1}} {
		if got := loopCount(c.asked, c.cores, c.shares); got != c.want {
			t.Errorf("asked for %d on %d cores, shares %v: %d, want %d", c.asked, c.cores, c.shares, got, c.want)
		}
	}
}
