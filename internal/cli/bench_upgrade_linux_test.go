package cli

import (
	"strings"
	"testing"
)

// TestBenchUpgradeThatFails measures upgrades in which a process dies. The command must report that, and print no
// figures.
func TestBenchUpgradeThatFails(t *testing.T) {
	for _, step := range []string{"successor is ready", "successor received all", "successor goes"} {
		t.Setenv(diesAt, step)
		code, stdout, stderr := separately(t, "bench", "upgrade", "--sessions", "6", "--window", "100ms")
		if code != 1 || stdout != "" ||
			!strings.Contains(stderr, "the process was not upgraded: upgrade failed; this process continues: ") {
			t.Errorf("%s: code %d, prints %q, says %q", step, code, stdout, stderr)
		}
	}
	t.Setenv(diesAt, "successor runs") // a step of the old process
	code, stdout, stderr := separately(t, "bench", "upgrade", "--sessions", "6", "--window", "100ms")
	want := "the last line is \"process ended: signal: killed\""
	if code != 1 || stdout != "" || !strings.Contains(stderr, want) {
		t.Errorf("the old process dies: code %d, prints %q, says %q", code, stdout, stderr)
	}
}
