//go:build interop

package interop_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestDashboard clicks through the dashboard in a headless Chromium. The test itself has a module of its own, so that
// ours does not need the browser's protocol.
func TestDashboard(t *testing.T) {
	t.Parallel() // it mostly waits for the page
	run := exec.CommandContext(t.Context(), "go", "test", "-count", "1", "-v", ".")
	run.Dir = filepath.Join("peers", "dashboard")
	run.Env = append(os.Environ(), "TIDEGATE="+tidegate)
	out, err := run.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if strings.Contains(string(out), "--- SKIP") {
		t.Skipf("%s", out)
	}
}
