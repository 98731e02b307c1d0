package cli

import (
	"strings"
	"testing"
)

// TestBenchUpgradeThatFails measures upgrades whose successor dies. The command must report that, and print no figures.
func TestBenchUpgradeThatFails(t *testing.T) {
	for _, step := range []string{"successor is ready", "successor received all", "successor goes"} {
		t.Setenv(diesAt, step)
		code, stdout, stderr := separately(t, "bench", "upgrade", "--sessions", "6", "--window", "100ms")
		if code != 1 || stdout != "" ||
			!strings.Contains(stderr, "the process was not upgraded: upgrade failed; this process continues: ") {
			t.Errorf("%s: code %d, prints %q, says %q", step, code, stdout, stderr)
		}
	}
}
