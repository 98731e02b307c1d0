package main_test

import (
	"os/exec"
	"testing"
)

// TestToolsBuild builds the modules of their own that import this one, so that a change here does not break them
// unseen. With -short it does not, since that compiles them.
func TestToolsBuild(t *testing.T) {
	if testing.Short() {
		t.Skip("with -short")
	}
	build := exec.Command("go", "vet", "./...")
	build.Dir = "tools/bench"
	if out, err := build.CombinedOutput(); err != nil {
		t.Errorf("tools/bench: %v\n%s", err, out)
	}
}
