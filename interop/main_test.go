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

// TestMain builds the binary once for all tests, unless the variable TIDEGATE names one.
func TestMain(m *testing.M) {
	if play := goPeers[os.Getenv(goPeerVariable)]; play != nil {
		play(os.Args[1:])
		return
	}
	os.Exit(buildAndRun(m))
}

func buildAndRun(m *testing.M) int {
	if tidegate = os.Getenv("TIDEGATE"); tidegate != "" {
		return m.Run()
	}
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
