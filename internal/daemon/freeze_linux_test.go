package daemon

import (
	"testing"
	"time"

	"tidegate/proxy/relay"
)

// TestStandstillIsBounded asks how long a process stands still for a successor that hangs. The copies before have shown
// the successor's pace: it is a fraction of a second, and never more than freezeTime.
func TestStandstillIsBounded(t *testing.T) {
	const ms = time.Millisecond
	for _, test := range []struct {
		name        string
		keeps       bool
		slowest     time.Duration
		size        int // of the sessions that have changed
		least, most time.Duration
	}{
		{"an older successor", false, 0, 1 << 20, freezeTime, freezeTime},
		{"nothing changed", true, 0, 0, 250 * ms, 250 * ms},
		{"some sessions changed", true, 2 * ms, 300 << 10, 290 * ms, 350 * ms},
		{"a slow machine", true, 100 * ms, 100 << 20, freezeTime, freezeTime},
	} {
		// 1,000 sessions of 10 KiB take the successor 100 ms.
		s := &successor{keeps: test.keeps, slowest: test.slowest, copied: 10 << 20, copying: 100 * ms}
		states := []relay.LoopState{{Sessions: [][]byte{make([]byte, test.size)}}}
		if got := s.freeze(states); got < test.least || got > test.most {
			t.Errorf("%s: %v, want %v to %v", test.name, got, test.least, test.most)
		}
	}
}
