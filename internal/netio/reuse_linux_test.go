package netio

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// heard keeps its input, with the Sockets.
type heard struct {
	texts   []string
	sockets []Socket
	failed  int
}

func (h *heard) Datagram(s Socket, _ netip.AddrPort, datagram []byte) {
	h.texts, h.sockets = append(h.texts, string(datagram)), append(h.sockets, s)
}

func (h *heard) Failed(Socket, error) { h.failed++ }

// TestDialReusesDescriptors closes a socket with unread input and dials another peer, in the same turn and in a later
// one.
func TestDialReusesDescriptors(t *testing.T) {
	for i, home := range []string{"127.0.0.1:0", "[::1]:0", "127.0.0.1:0", "[::1]:0"} {
		p := newEpollPoller(t)
		old, other := listenAt(t, p, home), listenAt(t, p, home)
		first := dial(t, p, old.Addr()).(*epollSocket)
		p.Send(old, first.Addr(), []byte("unread"))
		p.Flush()
		first.Close()
		p.Send(old, first.Addr(), []byte("too late"))
		p.Flush()
		if at, err := boundTo(first.fd); at.Port() != 0 || err != nil {
			t.Errorf("%s: closed, it is bound to %s, %v", home, at, err)
		}
		if i >= 2 {
			if err := p.Wait(time.Now()); err != nil {
				t.Fatal(err)
			}
		}

		second := dial(t, p, other.Addr()).(*epollSocket)
		switch {
		case second.fd != first.fd:
			t.Errorf("%s: the descriptor is %d, want %d again", home, second.fd, first.fd)
		case second.Peer() != other.Addr(), second.Owner() != nil:
			t.Errorf("%s: to %s for %v, want %s without an owner", home, second.Peer(), second.Owner(), other.Addr())
		}
		p.Send(other, second.Addr(), []byte("to the second"))
		p.Send(second, netip.AddrPort{}, []byte("from the second"))
		p.Flush()
		var got heard
		for deadline := time.Now().Add(5 * time.Second); len(got.texts) < 2 && time.Now().Before(deadline); {
			turn(t, p, &got)
		}
		slices.Sort(got.texts)
		if want := []string{"from the second", "to the second"}; !slices.Equal(got.texts, want) ||
			slices.Contains(got.sockets, Socket(first)) {
			t.Errorf("%s: received %q, want %q", home, got.texts, want)
		}
	}
}

func listenAt(t *testing.T, p Poller, home string) Socket {
	t.Helper()
	s, err := p.Listen(netip.MustParseAddrPort(home), SocketOptions{})
	if err != nil {
		t.Skip(err)
	}
	return s
}

// TestReusedDescriptorsHaveTheirOptions dials with fragments forbidden and allowed by turns.
func TestReusedDescriptorsHaveTheirOptions(t *testing.T) {
	p := newEpollPoller(t)
	to := listen(t, p, SocketOptions{}).Addr()
	fd := -1
	for i, forbidden := range []bool{true, true, false, true} {
		socket, err := p.Dial(to, SocketOptions{DontFragment: forbidden, SourceKey: uint64(i)})
		if err != nil {
			t.Fatal(err)
		}
		s := socket.(*epollSocket)
		if fd >= 0 && s.fd != fd {
			t.Errorf("dial %d: descriptor %d, want %d again", i, s.fd, fd)
		}
		fd = s.fd
		want := unix.IP_PMTUDISC_DONT
		if forbidden {
			want = unix.IP_PMTUDISC_PROBE
		}
		if got, err := unix.GetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_MTU_DISCOVER); got != want || err != nil {
			t.Errorf("dial %d: IP_MTU_DISCOVER = %d, %v; want %d", i, got, err, want)
		}
		if err := s.AllowFragments(); err != nil {
			t.Fatal(err)
		}
		s.Close()
	}
}

// TestIdleSocketsAreSilent checks that unread input and unreported errors of a closed socket do not end a wait.
func TestIdleSocketsAreSilent(t *testing.T) {
	p := newEpollPoller(t)
	server := listen(t, p, SocketOptions{})
	s := dial(t, p, server.Addr())
	for range 3 {
		p.Send(server, s.Addr(), []byte("unread"))
	}
	p.Flush()
	server.Close()
	p.Send(s, netip.AddrPort{}, []byte("to a closed socket"))
	p.Flush()
	s.Close()
	var got heard
	if err := p.Wait(time.Now()); err != nil {
		t.Fatal(err)
	}
	if len(p.ready) > 0 {
		t.Error("a closed socket ends a wait")
	}
	p.Receive(&got)
	if len(got.texts) > 0 || got.failed > 0 {
		t.Errorf("a closed socket received %q and failed %d times", got.texts, got.failed)
	}
}

// TestIdleSocketsAreBounded closes more sockets than may be idle, and one with special options. Then it closes the
// Poller.
func TestIdleSocketsAreBounded(t *testing.T) {
	p := newEpollPoller(t)
	to := listen(t, p, SocketOptions{}).Addr()
	own, err := p.Dial(to, SocketOptions{Local: netip.MustParseAddr("127.0.0.1")})
	if err != nil {
		t.Fatal(err)
	}
	own.Close()
	var sockets []Socket
	for range maxIdle + 10 {
		sockets = append(sockets, dial(t, p, to))
	}
	for _, s := range sockets {
		s.Close()
	}
	kept := 0
	for _, s := range sockets {
		if isOpen(s) {
			kept++
		}
	}
	if kept != maxIdle || len(p.idleSockets) != maxIdle {
		t.Errorf("%d descriptors are open and %d in the list, want %d", kept, len(p.idleSockets), maxIdle)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if slices.ContainsFunc(sockets, isOpen) {
		t.Error("a descriptor outlives its Poller")
	}
}

func isOpen(s Socket) bool {
	_, err := unix.FcntlInt(uintptr(s.(*epollSocket).fd), unix.F_GETFD, 0)
	return err == nil
}
