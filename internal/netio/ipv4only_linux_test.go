package netio_test

import (
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"tidegate/internal/netio"
)

// TestMachineWithoutIPv6 listens at all addresses of a machine whose kernel has no IPv6. The error names the remedy.
func TestMachineWithoutIPv6(t *testing.T) {
	errs := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with its filter
		if err := withoutIPv6(); err != nil {
			t.Log(err)
			close(errs)
			return
		}
		p, err := netio.New(netio.Options{})
		if err != nil {
			errs <- err
			return
		}
		_, err = p.Listen(netip.MustParseAddrPort("[::]:7777"), netio.SocketOptions{})
		_ = p.Close() // other tests need to be alone
		errs <- err
	}()
	switch err, ok := <-errs; {
	case !ok:
		t.Skip("no system call filter")
	case err == nil || !strings.Contains(err.Error(), "0.0.0.0:7777"):
		t.Error(err)
	}
}

// withoutIPv6 has the kernel refuse IPv6 sockets of this thread, as one without IPv6 does.
func withoutIPv6() error {
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // the system call
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_SOCKET, Jf: 3},
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 16}, // its first argument
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.AF_INET6, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EAFNOSUPPORT)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	return unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0)
}
