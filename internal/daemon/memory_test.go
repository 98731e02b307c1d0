package daemon

import (
	"testing"
	"time"
)

// TestMemoryIsGivenBackInCalm: a burst is waited out, and what is too little is left alone.
func TestMemoryIsGivenBackInCalm(t *testing.T) {
	const live = 40 << 20
	now := time.Unix(1e9, 0)
	k := &memoryKeeper{stirred: now}
	allocated := uint64(0)
	for _, step := range []struct {
		what  string
		looks int    // so many
		each  uint64 // bytes allocated before each of them
		want  int    // times that memory is given back
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
		given := 0
		for range step.looks {
			now = now.Add(memoryLook)
			allocated += step.each
			if k.look(now, allocated, live) {
				given++
			}
		}
		if given != step.want {
			t.Fatalf("%s: given back %d times, want %d", step.what, given, step.want)
		}
	}
}

// TestMemoryFigures: the runtime knows the figures that are asked for.
func TestMemoryFigures(t *testing.T) {
	if allocated, _ := newMemoryKeeper(time.Now()).read(); allocated == 0 {
		t.Error("nothing was ever allocated")
	}
}
