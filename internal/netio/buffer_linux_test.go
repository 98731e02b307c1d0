package netio

import (
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// TestReceiveBuffers asks the kernel for the buffers of each kind of socket, with and without a size in the options.
// The kernel reports twice the configured size.
func TestReceiveBuffers(t *testing.T) {
	if given, err := GrantedBuffer(SharedBuffer(2 * dialBuffer)); err != nil || given < SharedBuffer(2*dialBuffer) {
		t.Skipf("the kernel gives %d bytes: %v", given, err)
	}
	p := newEpollPoller(t)
	server := listen(t, p, SocketOptions{}).(*epollSocket)
	prefix := netip.MustParsePrefix("127.67.0.0/16")
	dialed := func(o SocketOptions) int {
		s, err := p.Dial(server.Addr(), o)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if l, ok := s.(*virtualSocket); ok {
			return l.shared.fd
		}
		return s.(*epollSocket).fd
	}
	check := func(what string, fd, want int) {
		t.Helper()
		if got, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF); err != nil || got != 2*want {
			t.Errorf("%s: %d bytes, %v; want %d", what, got, err, 2*want)
		}
	}
	check("listener", server.fd, listenBuffer)
	for _, asked := range []int{0, 2 * dialBuffer, 0} { // the later ones are reused
		each := asked
		if each == 0 {
			each = dialBuffer
		}
		o := SocketOptions{ReceiveBuffer: asked}
		check(fmt.Sprint("dialed, asked for ", asked), dialed(o), each)
		o.Sources = prefix
		check(fmt.Sprint("with a source, asked for ", asked), dialed(o), sharedBuffers*each)
		o.Sources, o.Shared = netip.Prefix{}, true
		shared, err := p.dialShared(server.Addr(), o.withDialDefaults())
		if err != nil {
			t.Fatal(err)
		}
		check(fmt.Sprint("shared, asked for ", asked), shared.(*virtualSocket).shared.fd, sharedBuffers*each)
	}
}

// TestGrantedBuffer asks for more than the system's limit, with and without the privilege to exceed it.
func TestGrantedBuffer(t *testing.T) {
	var limit int
	text, err := os.ReadFile("/proc/sys/net/core/rmem_max")
	if err != nil {
		t.Skip(err)
	}
	if _, err := fmt.Sscan(string(text), &limit); err != nil {
		t.Fatal(err)
	}
	if given, err := GrantedBuffer(2 * limit); err != nil || given != 2*limit && given != limit {
		t.Errorf("of %d the kernel gives %d, %v", 2*limit, given, err)
	}
	result := make(chan int, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread drops its capabilities
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var none [2]unix.CapUserData
		if unix.Capset(&header, &none[0]) != nil {
			result <- -1
			return
		}
		given, _ := GrantedBuffer(2 * limit)
		result <- given
	}()
	if given := <-result; given != limit {
		t.Errorf("without privilege the kernel gives %d, want net.core.rmem_max, %d", given, limit)
	}
}
