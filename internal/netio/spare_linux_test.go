package netio

import (
	"errors"
	"net/netip"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// TestSpareFiles opens sockets until no more can be had: files still can.
func TestSpareFiles(t *testing.T) {
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
	for range spareFiles {
		f, err := os.Open(os.DevNull)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
	}
}
