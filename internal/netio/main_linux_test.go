package netio

import (
	"fmt"
	"os"
	"testing"
)

// TestMain checks that the tests have closed their Pollers: an open one keeps the loops of later tests from the kernel.
func TestMain(m *testing.M) {
	code := m.Run()
	if n := waiters.Load(); code == 0 && n != 0 {
		fmt.Printf("%d Pollers stay open\n", n)
		code = 1
	}
	os.Exit(code)
}
