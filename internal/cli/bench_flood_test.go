//go:build flood

package cli

import (
	"strings"
	"testing"
)

// TestFlood runs a short flood, and refuses an unknown kind.
func TestFlood(t *testing.T) {
	code, stdout, stderr := tidegate(t, "bench", "flood", "--loopback", "--kind", "pings", "--players", "2", "--rate",
		"1000", "--window", "200ms")
	if code != 0 || !strings.Contains(stdout, "flood over loopback: 6 clients") {
		t.Errorf("code %d, says %s%s", code, stdout, stderr)
	}
	if code, _, stderr := tidegate(t, "bench", "flood", "--kind", "rain"); code != 2 ||
		!strings.Contains(stderr, `"rain"`) {
		t.Errorf("an unknown kind: code %d, says %q", code, stderr)
	}
}
