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
	for _, folder := range []string{"tools/bench", "interop/peers/nethernet"} {
		build := exec.Command("go", "vet", "./...")
		build.Dir = folder
		if out, err := build.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", folder, err, out)
		}
	}
}
