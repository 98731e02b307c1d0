package netio

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestReserve: the process's table has room for so many descriptors.
func TestReserve(t *testing.T) {
	want := min(2*tableSize(t), descriptorBound())
	Reserve(want)
	if got := tableSize(t); got < want {
		t.Errorf("room for %d descriptors, want %d", got, want)
	}
}

// tableSize is how many descriptors the kernel has room for without growing the process's table.
func tableSize(t *testing.T) (n int) {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(status), "FDSize:")
	if _, err := fmt.Sscan(after, &n); err != nil {
		t.Fatalf("FDSize: %v", err)
	}
	return n
}
