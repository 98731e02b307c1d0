package netio

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestReservedDescriptors opens sockets until no more are allowed, and checks that files can still be opened.
func TestReservedDescriptors(t *testing.T) {
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	few := unix.Rlimit{Cur: 200, Max: was.Max}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &few); err != nil {
		t.Skip(err)
	}
	defer func() {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
			t.Fatal(err)
		}
	}()
	p := newEpollPoller(t)
	to := netip.MustParseAddrPort("127.0.0.1:9")
	var err error
	dialled := 0
	for ; dialled < int(few.Cur) && err == nil; dialled++ {
		_, err = p.Dial(to, SocketOptions{})
	}
	if !errors.Is(err, unix.EMFILE) || dialled < int(few.Cur)/2 {
		t.Fatalf("after %d sockets: %v", dialled, err)
	}
	for range reservedDescriptors {
		f, err := os.Open(os.DevNull)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
	}
}

// TestReserve checks that the process's table has room for the descriptors.
func TestReserve(t *testing.T) {
	want := min(2*tableSize(t), descriptorBound())
	Reserve(want)
	if got := tableSize(t); got < want {
		t.Errorf("room for %d descriptors, want %d", got, want)
	}
}

// tableSize returns the number of descriptors in the kernel's table of the process.
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
