//go:build !flood

package cli

import (
	"strings"
	"testing"
)

// TestNoFlood calls the flood command of a released program. The answer says how to build one with the generator.
func TestNoFlood(t *testing.T) {
	code, _, stderr := tidegate(t, "bench", "flood", "--rate", "1000")
	if code == 0 || !strings.Contains(stderr, "go build -tags flood") {
		t.Errorf("code %d, says %q", code, stderr)
	}
}
