package netio

import (
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"
)

// TestFailedOpenLeaksNothing checks that a socket that could not be opened leaves no descriptor open: the next one
// gets the same descriptor.
func TestFailedOpenLeaksNothing(t *testing.T) {
	p := newEpollPoller(t)
	taken := listen(t, p, SocketOptions{})
	first := listen(t, p, SocketOptions{}).(*epollSocket)
	first.Close()
	for _, open := range []func() (Socket, error){
		func() (Socket, error) { return p.Listen(taken.Addr(), SocketOptions{}) },
		func() (Socket, error) {
			return p.Listen(taken.Addr(), SocketOptions{SendBuffer: -1, ReceiveBuffer: -1})
		},
		func() (Socket, error) { return p.Dial(netip.MustParseAddrPort("255.255.255.255:1"), SocketOptions{}) },
	} {
		if _, err := open(); err == nil {
			t.Fatal("no error")
		}
	}
	if got := listen(t, p, SocketOptions{}).(*epollSocket).fd; got != first.fd {
		t.Errorf("the next descriptor is %d, want %d as before", got, first.fd)
	}
}

// TestCloseLeaksNothing checks that a closed Poller leaves no descriptor open: the next Poller gets the same ones.
func TestCloseLeaksNothing(t *testing.T) {
	var first int
	for i := range 2 {
		p, err := New(Options{MaxBatchDelay: 1})
		if err != nil {
			t.Fatal(err)
		}
		fd := listen(t, p, SocketOptions{}).(*epollSocket).fd
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			first = fd
		} else if fd != first {
			t.Errorf("the second Poller's socket has descriptor %d, the first's had %d", fd, first)
		}
	}
}

// TestBufferSizes checks that the kernel has the configured sizes, which it doubles. The defaults may exceed its
// limits.
func TestBufferSizes(t *testing.T) {
	p := newEpollPoller(t)
	asked := listen(t, p, SocketOptions{ReceiveBuffer: 1 << 16, SendBuffer: 1 << 15})
	if got, want := bufferSizes(t, asked), [2]int{1 << 17, 1 << 16}; got != want {
		t.Errorf("buffers %v, want %v", got, want)
	}
	if unix.Geteuid() != 0 {
		t.Skip("the rest needs the privilege to exceed the kernel's limits")
	}
	want := [2]int{2 * listenBuffer, 2 * listenBuffer}
	if got := bufferSizes(t, listen(t, p, SocketOptions{})); got != want {
		t.Errorf("buffers by default %v, want %v", got, want)
	}
}

func bufferSizes(t *testing.T, s Socket) (sizes [2]int) {
	t.Helper()
	for i, name := range []int{unix.SO_RCVBUF, unix.SO_SNDBUF} {
		n, err := unix.GetsockoptInt(s.(*epollSocket).fd, unix.SOL_SOCKET, name)
		if err != nil {
			t.Fatal(err)
		}
		sizes[i] = n
	}
	return sizes
}

// TestClosedSocketWithACopy closes listening sockets that have a copy, as another process would. Input for the copy
// does not wake the loop.
func TestClosedSocketWithACopy(t *testing.T) {
	p, other := newEpollPoller(t), newEpollPoller(t)
	datagrams := listen(t, p, SocketOptions{})
	streams, err := p.ListenStream(netip.MustParseAddrPort("127.0.0.1:0"), StreamOptions{MaxConns: 1, HelloTimeout: 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []Socket{datagrams, streams} {
		fd, err := p.Copy(s)
		if err != nil {
			t.Fatal(err)
		}
		defer CloseCopies([]int{fd})
		s.Close()
	}
	other.Send(dial(t, other, datagrams.Addr()), netip.AddrPort{}, []byte("hello"))
	other.Flush()
	if _, err := other.DialStream(streams.Addr(), StreamOptions{}); err != nil {
		t.Fatal(err)
	}
	if n, errno := epollPoll(p.waiter.epfd, p.events[:]); n != 0 || errno != 0 {
		t.Errorf("the loop is told of %d sockets, %v", n, errno)
	}
}
