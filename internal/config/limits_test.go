package config

import "testing"

// TestAmounts asserts that metrics get each limit that one can divide a figure by: numbers and sizes, not times.
func TestAmounts(t *testing.T) {
	l := Limits{Sessions: 7, HeldBytes: 1 << 20, UnprovedBytes: 3, IdleTimeout: 1}
	got := l.Amounts()
	if got["sessions"] != 7 || got["held_bytes"] != 1<<20 || got["unproved_bytes"] != 3 || len(got) != 7 {
		t.Errorf("%d amounts: %v", len(got), got)
	}
	for _, key := range []string{"idle_timeout", "trusted_networks"} {
		if _, ok := got[key]; ok {
			t.Errorf("%s is an amount", key)
		}
	}
}
