//go:build interop

package interop_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// tidegate is the path of the tested binary.
var tidegate string

// TestMain builds the binary once for all tests.
func TestMain(m *testing.M) {
	os.Exit(buildAndRun(m))
}

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "tidegate-interop-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	tidegate = filepath.Join(dir, "tidegate")
	if out, err := exec.Command("go", "build", "-o", tidegate, "tidegate").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build tidegate: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}
