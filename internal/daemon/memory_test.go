package daemon

import (
	"testing"
	"time"
)

// TestMemoryIsReleasedInCalm waits until a burst is over, and ignores small amounts.
func TestMemoryIsReleasedInCalm(t *testing.T) {
	const live = 40 << 20
	now := time.Unix(1e9, 0)
	k := &memoryReleaser{lastBurst: now}
	allocated := uint64(0)
	for _, step := range []struct {
		what  string
		looks int    // number of looks
		each  uint64 // bytes allocated before each look
		want  int    // expected number of releases
	}{
		{"nothing was allocated", 60, 0, 0},
		{"a burst", 5, 8 << 20, 0},
		{"calm, not for long enough", 9, 1000, 0},
		{"calm for long enough", 20, 1000, 1},
		{"a little", 600, 1000, 0},
		{"steady work is the collector's own affair", 60, 1 << 20, 0},
		{"and its end", 20, 0, 1},
		{"slowly as much as is worth it", 120, 100 << 10, 1},
	} {
		released := 0
		for range step.looks {
			now = now.Add(memoryLook)
			allocated += step.each
			if k.look(now, allocated, live) {
				released++
			}
		}
		if released != step.want {
			t.Fatalf("%s: given back %d times, want %d", step.what, released, step.want)
		}
	}
}

// TestMemoryFigures checks that the runtime has the figures.
func TestMemoryFigures(t *testing.T) {
	if allocated, _ := newMemoryReleaser(time.Now()).read(); allocated == 0 {
		t.Error("nothing was ever allocated")
	}
}
