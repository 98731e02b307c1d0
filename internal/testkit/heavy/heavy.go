// Package heavy marks tests that take much processor time. They run where the environment has TIDEGATE_HEAVY, as in
// .ci/run and make test. Then go test ./... alone stays light.
package heavy

import (
	"os"
	"testing"
)

// Runs reports whether heavy tests run. With -short they do not.
func Runs() bool { return os.Getenv("TIDEGATE_HEAVY") != "" && !testing.Short() }

// Skip skips a heavy test where none run.
func Skip(t testing.TB) {
	t.Helper()
	if !Runs() {
		t.Skip("heavy: runs with TIDEGATE_HEAVY=1, as in make check")
	}
}
